#pragma once
// From the times of a walked (or really executed) flat program to a Timeline.

#include "report/timeline.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/program.hpp"
#include "schedules/rendezvous_walk.hpp"

namespace penstock {

/// The spans of all positions but barriers, rank by rank in program order. Uses start, end, message_start
/// and message_end of `times`; `placement` says which replica a span belongs to.
Timeline timeline_of(const FlatProgram& flat, const Placement& placement, const Walk& times);

}  // namespace penstock
