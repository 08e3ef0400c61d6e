#pragma once
// The costs of every schedule on one shape, for tables that compare schedules.

#include <optional>
#include <string_view>

#include "report/result/result.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// The figures of one schedule on equal stages. A K-th of the model takes 1 ms for each of F, I and W, and 2
/// ms for B. Transfers and updates take no time.
struct ScheduleFigures {
  std::string_view schedule;
  double idle_over_total = 0;
  double longest_span_rate = 0;
  double peak_activations = 0;      ///< peak of the fullest rank; 1: a microbatch on a K-th of the model
  double weights = 0;               ///< peak of the fullest rank, all versions; 1: a K-th of the model
  double sends_per_microbatch = 0;  ///< activations and gradients that ranks send to each other
  Result result;                    ///< the complete result, with its timeline
};

/// Predicts `schedule` for `shape`. Returns nothing if the schedule's rule refuses the shape.
std::optional<ScheduleFigures> figures_of(const ScheduleInfo& schedule, const Shape& shape);

/// Returns `shape` with only the options that the schedule supports. Other schedules get one chunk for each
/// rank, or whole sequences instead of slices.
Shape shape_for(const ScheduleInfo& schedule, Shape shape);

}  // namespace penstock
