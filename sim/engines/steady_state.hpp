#pragma once
// Finds the period of a program that is repeated for ever.
//
// A deterministic program is a max-plus linear system: the start times of one repetition are maxima of sums
// of the times before it. So if all times have moved by one amount, they always will.

#include <cstddef>
#include <optional>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/period.hpp"

namespace penstock {

/// Returns the period of a synchronous program that is repeated without end, with no barrier except its own.
/// For an asynchronous program (UpdateRule::microbatch) it is the period in the middle of the stream. Returns
/// nothing if the stream is too short, or if 64 repetitions show no period.
std::optional<Period> steady_period(const Experiment& experiment, Engine engine);
/// Like the other steady_period(), but uses `run`, the experiment's existing run on the engine.
std::optional<Period> steady_period(const Experiment& experiment, Engine engine, const EngineRun& run);

/// Returns the period of a synchronous program from passes of its tape, of which at most one has run.
/// `actions` is the number of the program's actions, including SENDs and RECVs.
std::optional<Period> period_of_passes(const Program& program, std::size_t actions, RepeatedTape& passes);

}  // namespace penstock
