#pragma once
// Predicts every schedule for the same shape and the same stages, for tables that compare schedules.

#include <optional>
#include <string_view>

#include "report/result/result.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// The figures of one schedule on equal stages. In 1/K of the model, the actions F, I and W take 1 ms each,
/// and B takes 2 ms. Transfers and updates take no time.
struct ScheduleFigures {
  std::string_view schedule;
  double idle_over_total = 0;
  double longest_span_rate = 0;
  double peak_activations = 0;  ///< peak of the fullest rank; 1 is one microbatch on 1/K of the model
  double weights = 0;           ///< peak of the fullest rank, all weight versions; 1 is 1/K of the model
  /// Messages with activations or gradients between ranks, for each microbatch.
  double sends_per_microbatch = 0;
  Result result;  ///< the complete result, with its timeline
};

/// Predicts `schedule` for `shape`. Returns nothing if the schedule's rule refuses the shape.
std::optional<ScheduleFigures> figures_of(const ScheduleInfo& schedule, const Shape& shape);

/// Returns `shape` with only those options that the schedule supports. If it supports no chunks or no
/// slices, the result has one chunk for each rank, or whole sequences.
Shape shape_for(const ScheduleInfo& schedule, Shape shape);

}  // namespace penstock
