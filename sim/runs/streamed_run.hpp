#pragma once
// Runs a program that is stored as loops with a streamed walk (sim/engines/streamed_walk.hpp). Used by
// simulate.cpp.

#include <optional>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// Runs an experiment with a plan for the stream engine. All figures of the result equal the figures of a
/// stored run, but it has no timeline. A long run has neither a digest nor a rate of repeated passes.
/// `stream_rate` is the steady rate of an asynchronous schedule's endless stream.
tl::expected<Result, StalledTurns> streamed_run(const Experiment& experiment, const RunPlan& plan,
                                                const SimulateOptions& options,
                                                std::optional<double> stream_rate);

}  // namespace penstock
