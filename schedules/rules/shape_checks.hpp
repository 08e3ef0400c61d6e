#pragma once
// Checks a shape before a schedule's rule reads it. Only schedules/ includes this header.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// Checks the values that the shape states. Fails if the schedule does not have one of the options, or if
/// copies of the pipeline cannot share the microbatches. Also fails if a count is below 1 or a list has a
/// wrong length.
tl::expected<void, std::string> check_given(const ScheduleInfo& schedule, const Shape& shape);

/// Returns the number of F and B actions in all iterations. Requires the number of chunks that the schedule
/// uses.
double compute_actions_of(const Shape& shape);
/// Rejects a shape that no machine could store, before memory is allocated. Requires the number of chunks
/// that the schedule uses.
tl::expected<void, std::string> check_possible_size(const Shape& shape);
/// Rejects a shape that is too large for the engines that store a program. Requires the number of chunks that
/// the schedule uses.
tl::expected<void, std::string> check_stored_size(const Shape& shape);

}  // namespace penstock
