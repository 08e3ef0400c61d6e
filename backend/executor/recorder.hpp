#pragma once
// From what workers and transports wrote down to the Timeline of a run. Private to the executors.

#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Requires all times of `times`, on one clock. The first start becomes 0.
Timeline recorded_timeline(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times);

}  // namespace penstock
