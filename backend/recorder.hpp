#pragma once
// From what workers and transports wrote down to the Timeline of a run. Private to the executors.

#include "report/timeline.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/program.hpp"
#include "schedules/rendezvous_walk.hpp"

namespace penstock {

/// Room for the times of all positions and messages, all 0.
Walk empty_times(const FlatProgram& flat);

/// Requires all times of `times`, on one clock. The first start becomes 0.
Timeline recorded_timeline(const FlatProgram& flat, const Placement& placement, const Walk& times);

}  // namespace penstock
