#pragma once
// The run of a program whose ranks' turns write a tape, without lowered lists. Used by simulate.cpp.

#include <optional>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// Runs an experiment of compute lists whose plan is turns: timeline, memory over time, digest. Where only a
/// row's figures are wanted, no span is made unless memory needs it. `stream_rate` is the steady rate of an
/// asynchronous schedule's endless stream.
tl::expected<Result, StalledTurns> turn_run(const Experiment& experiment, const SimulateOptions& options,
                                            std::optional<double> stream_rate);

}  // namespace penstock
