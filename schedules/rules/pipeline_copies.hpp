#pragma once
// Applies the passes that are the same for all schedules. A schedule's rule generates one copy of a pipeline.
// Then copies, gradient buckets and sharding change the result:
//
//   shape of one copy -> the schedule's rule -> copies -> buckets -> sharding
//
// generators.cpp uses this file.

#include <tl/expected.hpp>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/asked_schedule.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// Returns the shape of one copy of the pipeline.
Shape of_one_copy(const ScheduleInfo& schedule, Shape shape);

/// Returns the program with all copies, gradient buckets and sharding that the shape states. The errors are
/// the same as for the rule and the passes.
GeneratedWithNotes all_copies(const AskedSchedule& asked);

}  // namespace penstock
