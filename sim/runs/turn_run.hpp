#pragma once
// A run of a generated program that is placed straight into a tape (sim/engines/turn_tape.hpp), without
// stored lists of messages: half the memory of a stored run. Used by simulate.cpp.

#include <optional>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/turn_tape.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// What a scenario and the options say themselves of whether turns may do: not of programs from files,
/// repeated passes, the event engine, and channels that block, launch in order, or have a capacity or an
/// eager size.
bool may_go_by_turns(const Scenario& scenario, const SimulateOptions& options);

/// The tape of an experiment from prepare_as_generated(). Nothing where only a lowered program knows when
/// things happen: for collectives, links that messages share, hosts that launch, programs that are lowered
/// already, and those that cannot be executed. Requires may_go_by_turns().
std::optional<TurnTape> turns_of(const Experiment& experiment);
/// The steady rate, from passes over that tape, of which `passes` may have run some.
std::optional<double> rate_of_passes(const Experiment& experiment, const TurnTape& turns,
                                     RepeatedTape& passes);

/// predict() of the scenario that such an experiment was prepared from: timeline, memory over time, digest.
/// Nothing where it has no such tape, or is an asynchronous one whose stream says no rate.
std::optional<Prediction> turn_run(const Scenario& scenario, const Experiment& experiment,
                                   const SimulateOptions& options);

}  // namespace penstock
