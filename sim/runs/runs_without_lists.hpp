#pragma once
// The runs of the two engines that need no lowered lists. The stream engine walks loops, and the turns engine
// writes a tape by placement rounds. simulate.cpp calls them, and runs lowered lists itself.

#include <optional>

#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// Runs an experiment by the stream engine, which `plan` has chosen. The result has the figures of a run
/// that stores all spans, but no timeline. For a long run, it also has no digest and no rate of repeated
/// passes. `stream_rate` is the steady rate of the endless stream, if the schedule is asynchronous.
tl::expected<Result, StalledTurns> streamed_run(const Experiment& experiment, const RunPlan& plan,
                                                const SimulateOptions& options,
                                                std::optional<double> stream_rate);

/// Runs an experiment of compute lists by the turns engine. The result can have a timeline, memory over time
/// and a digest. If the caller wants only the figures of a sweep's point, spans are made only if the memory
/// is computed from them. `stream_rate` is the steady rate of the endless stream, if the schedule is
/// asynchronous.
tl::expected<Result, StalledTurns> turn_run(const Experiment& experiment, const SimulateOptions& options,
                                            std::optional<double> stream_rate);

}  // namespace penstock
