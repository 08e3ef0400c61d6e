#pragma once
// The literature's formulas for a schedule's idle time. Tests compare them with the simulator, and charts
// draw them beside its curves.

#include <cstdint>
#include <optional>
#include <string_view>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// The formula for the idle time of each rank in one run of a schedule on equal stages. F, I and W take 1, B
/// takes 2, transfers and updates take nothing. A rank computes for 3 M v, where v is its number of model
/// chunks.
struct ClosedForm {
  /// The name in the table of schedules.
  std::string_view schedule;
  /// The formula as text in K, M, v and q, such as "3(K-1)".
  std::string_view idle;
  /// The shapes for which the formula holds, in words.
  std::string_view holds;
  /// True if idle over total is the same for any F and B.
  bool for_any_times = false;
  /// Returns the formula's value for a shape, or nothing if it does not hold for the shape.
  std::optional<double> (*idle_of)(const Shape&) = nullptr;
};

/// Returns the formula of a schedule, given its name in the table, or null if none is known.
const ClosedForm* find_closed_form(std::string_view schedule);

/// Returns idle_over_total by the schedule's formula, or nothing if no formula holds for the shape.
std::optional<double> closed_form_bubble(const ScheduleInfo& schedule, const Shape& shape);

}  // namespace penstock
