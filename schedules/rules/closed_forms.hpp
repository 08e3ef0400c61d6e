#pragma once
// What the literature's formulas say of a schedule's idle time, to hold the simulator against and to draw
// beside its curves.

#include <cstdint>
#include <optional>
#include <string_view>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// The idle time of each rank in one run of a schedule on equal stages: F, I and W take 1, B takes 2,
/// transfers and updates nothing; a rank computes for 3 M v, v being its model chunks.
struct ClosedForm {
  std::string_view schedule;  ///< the name in the table of schedules
  std::string_view idle;      ///< in K, M, v and q: "3(K-1)"
  std::string_view holds;     ///< for which shapes, in words
  /// True when idle over total stays the same for any F and B.
  bool for_any_times = false;
  /// The formula's value for a shape; nothing where it does not hold.
  std::optional<double> (*idle_of)(const Shape&) = nullptr;
};

/// The formula of a schedule, by its name in the table; null when none is known.
const ClosedForm* find_closed_form(std::string_view schedule);

/// idle_over_total by the schedule's formula; nothing where it has none for the shape.
std::optional<double> closed_form_bubble(const ScheduleInfo& schedule, const Shape& shape);

}  // namespace penstock
