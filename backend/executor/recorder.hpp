#pragma once
// Makes the Timeline of a run from the times that workers and transports recorded.

#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the timeline of a run. Its earliest start is 0. Requires that `times` is complete and was measured
/// by one clock.
Timeline recorded_timeline(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times);

}  // namespace penstock
