#pragma once
// The runs of the two engines that need no lowered lists: loops that are walked, and a tape that the
// ranks' turns write. simulate.cpp calls them, and runs lowered lists itself.

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

/// Runs an experiment of compute lists with a plan for the turns engine. The result can have a timeline,
/// memory over time and a digest. If only the figures of a sweep's point are wanted, spans are made only if
/// memory needs them. `stream_rate` is the steady rate of an asynchronous schedule's endless stream.
tl::expected<Result, StalledTurns> turn_run(const Experiment& experiment, const SimulateOptions& options,
                                            std::optional<double> stream_rate);

}  // namespace penstock
