#pragma once
// A schedule's rule knows one copy of a pipeline; what copies, buckets and sharding add is the same for all
// schedules. Used by generators.cpp.

#include <tl/expected.hpp>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/asked_schedule.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// What one copy of the pipeline is generated for.
Shape of_one_copy(const ScheduleInfo& schedule, Shape shape);

/// The program of all copies, with its stages in buckets and sharded as asked. Errors: those of the rule and
/// of the passes.
GeneratedWithNotes all_copies(const AskedSchedule& asked);

}  // namespace penstock
