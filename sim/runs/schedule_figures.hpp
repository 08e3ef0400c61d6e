#pragma once
// What every schedule costs on one shape, for tables that compare them.

#include <optional>
#include <string_view>

#include "report/result/result.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// One schedule on equal stages: F, I and W take 1 ms for a K-th of the model, B 2 ms, transfers and
/// updates nothing.
struct ScheduleFigures {
  std::string_view schedule;
  double idle_over_total = 0;
  double longest_span_rate = 0;
  double peak_activations = 0;      ///< of the fullest rank; 1: a microbatch's over a K-th of the model
  double weights = 0;               ///< of the fullest rank, all versions; 1: a K-th of the model's
  double sends_per_microbatch = 0;  ///< activations and gradients between ranks
  Result result;                    ///< all of it, timeline included
};

/// Predicts `schedule` for `shape`. Nothing when its rule refuses the shape.
std::optional<ScheduleFigures> figures_of(const ScheduleInfo& schedule, const Shape& shape);

/// `shape` with what the schedule takes of it: one chunk a rank where it takes no others, whole sequences
/// where it does not slice.
Shape shape_for(const ScheduleInfo& schedule, Shape shape);

}  // namespace penstock
