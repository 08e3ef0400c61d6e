#pragma once
// Published formulas for the idle time of schedules. Tests compare them with the simulator, and charts draw
// them next to its curves.

#include <cstdint>
#include <optional>
#include <string_view>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// The formula for the idle time of each rank during one run of a schedule. It assumes that all stages are
/// equal. F, I (gradient of the input) and W (gradient of the weights) take 1, and B takes 2. Transfers and
/// updates take no time. A rank with v model chunks computes for 3 M v.
struct ClosedForm {
  /// The schedule's name in the table of schedules.
  std::string_view schedule;
  /// The formula for the idle time as text in K, M, v and q, such as "3(K-1)".
  std::string_view idle;
  /// The conditions on K, M, v and q under which the formula is correct, as text.
  std::string_view holds;
  /// True if the idle time divided by the total time does not depend on the durations of F and B.
  bool for_any_times = false;
  /// Returns the idle time for a shape, or nothing if the formula is not correct for this shape.
  std::optional<double> (*idle_of)(const Shape&) = nullptr;
};

/// Returns the formula for the schedule with this name, or null if no formula is known.
const ClosedForm* find_closed_form(std::string_view schedule);

/// Returns the idle time divided by the total time (idle_over_total) by the schedule's formula. Returns
/// nothing if there is no formula for the shape.
std::optional<double> closed_form_bubble(const ScheduleInfo& schedule, const Shape& shape);

}  // namespace penstock
