#pragma once
// From the times of a walked (or really executed) flat program to a Timeline.

#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The spans of all positions but barriers, rank by rank in program order; `placement` says which replica a
/// span belongs to.
Timeline timeline_of(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times);

}  // namespace penstock
