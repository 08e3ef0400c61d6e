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
/// equal, that F, I and W take 1, that B takes 2, and that transfers and updates take no time. A rank with v
/// model chunks computes for 3 M v.
struct ClosedForm {
  /// The name in the table of schedules.
  std::string_view schedule;
  /// The formula as text in K, M, v and q, such as "3(K-1)".
  std::string_view idle;
  /// The conditions on the shape under which the formula holds, as text.
  std::string_view holds;
  /// True if the share of idle time is the same for any durations of F and B.
  bool for_any_times = false;
  /// Returns the formula's value for a shape, or nothing if the formula does not hold for this shape.
  std::optional<double> (*idle_of)(const Shape&) = nullptr;
};

/// Returns the formula of the schedule with this name, or null if no formula is known.
const ClosedForm* find_closed_form(std::string_view schedule);

/// Returns the share of idle time (idle_over_total) by the schedule's formula. Returns nothing if no formula
/// holds for the shape.
std::optional<double> closed_form_bubble(const ScheduleInfo& schedule, const Shape& shape);

}  // namespace penstock
