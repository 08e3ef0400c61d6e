#pragma once
// Checks of a shape that precede every schedule's rule. Only schedules/ includes this header.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// Checks what the shape states. Errors: options that the schedule does not take, copies of the pipeline that
/// cannot share the microbatches, counts below 1, lists of a wrong length.
tl::expected<void, std::string> check_given(const ScheduleInfo& schedule, const Shape& shape);

/// Returns the number of Fs and Bs in all iterations. Requires the schedule's own number of chunks.
double compute_actions_of(const Shape& shape);
/// Refuses a shape that no machine could hold, before memory is allocated. Requires the schedule's own number
/// of chunks.
tl::expected<void, std::string> check_possible_size(const Shape& shape);
/// Refuses a shape that is too large for the engines that store a program. Requires the schedule's own number
/// of chunks.
tl::expected<void, std::string> check_stored_size(const Shape& shape);

}  // namespace penstock
