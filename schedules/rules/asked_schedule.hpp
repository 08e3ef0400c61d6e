#pragma once
// Checks the name and the shape of a schedule before its rule runs. A rule may then rely on counts of at
// least 1, and on options that the schedule has.

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// Returns true if copies of the pipeline are `replicas` in this schedule, so that it takes no
/// `data_parallel`.
bool copies_are_replicas(const ScheduleInfo& schedule);

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

/// A schedule of the table, and the shape with the number of chunks that this schedule uses.
struct AskedSchedule {
  const ScheduleInfo* schedule = nullptr;
  Shape shape;
};

/// Returns the schedule `name` of the table and the checked shape. Fails if the table does not have the name;
/// the message suggests a similar name. Also fails like check_given() and check_possible_size().
tl::expected<AskedSchedule, std::string> asked_schedule(std::string_view name, const Shape& shape);

}  // namespace penstock
