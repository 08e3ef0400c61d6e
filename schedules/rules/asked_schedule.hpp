#pragma once
// Checks the name and the shape (counts and options) of a schedule before its rule runs. A rule may then
// rely on counts of at least 1, and on options that the schedule has.

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// Returns true if the schedule states copies of the pipeline as `replicas`. It then has no option
/// `data_parallel`.
bool copies_are_replicas(const ScheduleInfo& schedule);

/// Checks the values in `shape` that the user gave. Fails if the schedule does not have one of the options.
/// Also fails if the copies of the pipeline cannot share the microbatches. Also fails if a count is below 1
/// or a list has a wrong length.
tl::expected<void, std::string> check_given(const ScheduleInfo& schedule, const Shape& shape);

/// Returns the number of F and B actions in all iterations. `shape.virtual_stages` must be the number of
/// chunks that the schedule uses.
double compute_actions_of(const Shape& shape);
/// Fails if no machine could store the program of this shape. The check needs no memory for the program.
/// `shape.virtual_stages` must be the number of chunks that the schedule uses.
tl::expected<void, std::string> check_possible_size(const Shape& shape);
/// Fails if the program of this shape is too large for the engines that store a whole program.
/// `shape.virtual_stages` must be the number of chunks that the schedule uses.
tl::expected<void, std::string> check_stored_size(const Shape& shape);

/// A schedule of the table, and the shape in which `virtual_stages` is the number of chunks that this
/// schedule uses.
struct AskedSchedule {
  const ScheduleInfo* schedule = nullptr;
  Shape shape;
};

/// Returns the schedule of the table with the name or alias `name`, and the checked shape. Fails if the
/// table does not have the name; the message suggests a similar name. Also fails for the reasons of
/// check_given() and check_possible_size().
tl::expected<AskedSchedule, std::string> asked_schedule(std::string_view name, const Shape& shape);

}  // namespace penstock
