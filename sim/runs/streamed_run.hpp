#pragma once
// The run of a program that is loops, by a streamed walk (sim/engines/streamed_walk.hpp). Used by
// simulate.cpp.

#include <optional>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// Runs an experiment whose plan is a stream. The result is that of a stored run to the last figure, but for
/// its timeline; a long one has no digest and no rate of repeated passes. `stream_rate` is the steady rate of
/// an asynchronous schedule's endless stream.
tl::expected<Result, StalledTurns> streamed_run(const Experiment& experiment, const RunPlan& plan,
                                                const SimulateOptions& options,
                                                std::optional<double> stream_rate);

}  // namespace penstock
