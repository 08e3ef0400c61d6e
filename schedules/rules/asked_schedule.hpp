#pragma once
// The checked form of a schedule's name and shape. A generator may rely on counts of at least 1 and on
// options that it takes. Used by generators.cpp.

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// A row of the table, and the shape with the number of chunks that the row fixes.
struct AskedSchedule {
  const ScheduleInfo* schedule = nullptr;
  Shape shape;
};

/// Returns the checked row and shape. Errors: a name that the table does not have, with the most similar
/// name; the errors of check_given() and check_possible_size().
tl::expected<AskedSchedule, std::string> asked_schedule(std::string_view name, const Shape& shape);

}  // namespace penstock
