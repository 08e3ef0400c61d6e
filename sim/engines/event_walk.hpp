#pragma once
// The event engine with durations that the caller chooses. event_simulation() of engines.hpp and the trials
// of monte_carlo.hpp use it.

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"

namespace penstock {

/// Returns the times of event_simulation() if compute actions take `durations.compute`. A transfer arrives
/// `durations.latency` after the links have carried its bytes. The engine computes holds from the shared
/// links and ignores `durations.hold`. Requires a program that does not hang, laid out for the experiment's
/// channels.
ProgramTimes event_walk(const Experiment& experiment, const FlatProgram& flat,
                        const WalkDurations& durations);

}  // namespace penstock
