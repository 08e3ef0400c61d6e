#pragma once
// The period of a program that is repeated for ever.
//
// A deterministic program is a max-plus linear system: the start times of one repetition are maxima of sums
// of those before it, so once all of them have moved by one common amount, they always will.

#include <cstddef>
#include <optional>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/period.hpp"

namespace penstock {

/// The period of a synchronous program repeated without end (no barrier beyond its own), or of the middle
/// of an asynchronous stream (UpdateRule::microbatch). Empty where no period shows: the stream is too short,
/// or repetitions have not settled after 64.
std::optional<Period> steady_period(const Experiment& experiment, Engine engine);
/// The same where the experiment has run on the engine already, which spares another run.
std::optional<Period> steady_period(const Experiment& experiment, Engine engine, const EngineRun& run);

/// The same of a synchronous program of so many actions, SENDs and RECVs among them, by passes of its tape,
/// of which at most one has been run.
std::optional<Period> period_of_passes(const Program& program, std::size_t actions, RepeatedTape& passes);

}  // namespace penstock
