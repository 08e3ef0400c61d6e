#pragma once
// A schedule's rule generates one copy of a pipeline. Copies, gradient buckets and sharding are passes over
// its result, which are the same for all schedules:
//
//   shape of one copy -> the schedule's rule -> copies -> buckets -> sharding
//
// Used by generators.cpp.

#include <tl/expected.hpp>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/asked_schedule.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// Returns the shape for which one copy of the pipeline is generated.
Shape of_one_copy(const ScheduleInfo& schedule, Shape shape);

/// Returns the program of all copies, with its stages in buckets and sharded if the shape asks for it.
/// Errors: those of the rule and of the passes.
GeneratedWithNotes all_copies(const AskedSchedule& asked);

}  // namespace penstock
