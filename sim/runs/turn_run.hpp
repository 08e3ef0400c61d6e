#pragma once
// Runs a program with a tape that placement rounds write, without lowered lists. Used by simulate.cpp.

#include <optional>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// Runs an experiment of compute lists with a plan for the turns engine. The result can have a timeline,
/// memory over time and a digest. If only the figures of a sweep's point are wanted, spans are made only if
/// memory needs them. `stream_rate` is the steady rate of an asynchronous schedule's endless stream.
tl::expected<Result, StalledTurns> turn_run(const Experiment& experiment, const SimulateOptions& options,
                                            std::optional<double> stream_rate);

}  // namespace penstock
