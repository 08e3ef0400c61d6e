#pragma once
// What a name and a shape ask for, checked. Used by generators.cpp.

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// A row of the table, and a shape with the number of chunks that it fixes.
struct AskedSchedule {
  const ScheduleInfo* schedule = nullptr;
  Shape shape;
};

/// Errors: a name that the table does not have, with the nearest that it has; those of check_given() and
/// check_possible_size().
tl::expected<AskedSchedule, std::string> asked_schedule(std::string_view name, const Shape& shape);

}  // namespace penstock
