#pragma once
// What is refused of a shape before any schedule's rule sees it. Private to schedules/.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// What the shape states: options that the schedule does not take, copies of the pipeline that cannot share
/// the microbatches, counts below 1, lists of another length than what they speak of.
tl::expected<void, std::string> check_given(const ScheduleInfo& schedule, const Shape& shape);

/// Of all iterations, F and B. Requires the schedule's own number of chunks.
double compute_actions_of(const Shape& shape);
/// What no machine could hold, before anything is allocated. Requires the schedule's own number of chunks.
tl::expected<void, std::string> check_possible_size(const Shape& shape);
/// What engines that store a program cannot number. Requires the schedule's own number of chunks.
tl::expected<void, std::string> check_stored_size(const Shape& shape);

}  // namespace penstock
