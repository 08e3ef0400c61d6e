#pragma once
// Checks a schedule's name and shape before a generator reads them. After these checks, counts are at least
// 1, and the shape has only options of the schedule. generators.cpp uses this file.

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// A row of the table of schedules, and the shape with the row's number of chunks.
struct AskedSchedule {
  const ScheduleInfo* schedule = nullptr;
  Shape shape;
};

/// Returns the row of `name` and the checked shape. Fails if the table does not have the name; the message
/// suggests a similar name. Also fails like check_given() and check_possible_size().
tl::expected<AskedSchedule, std::string> asked_schedule(std::string_view name, const Shape& shape);

}  // namespace penstock
