#pragma once
// Makes the Timeline of a run from the times of workers and transports. Used only by executors.

#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the timeline, with the first start at 0. Requires that all of `times` are present and of one
/// clock.
Timeline recorded_timeline(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times);

}  // namespace penstock
