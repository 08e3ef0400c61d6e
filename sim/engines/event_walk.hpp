#pragma once
// The event engine for whoever brings durations of his own: event_simulation() of engines.hpp and the trials
// of monte_carlo.hpp.

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"

namespace penstock {

/// The times of event_simulation() where compute actions take `durations.compute` and transfers arrive
/// `durations.latency` after their links have carried them; what they hold follows from the links, whatever
/// `durations.hold` says. Requires a program that does not hang, laid out for the experiment's channels.
ProgramTimes event_walk(const Experiment& experiment, const FlatProgram& flat,
                        const WalkDurations& durations);

}  // namespace penstock
