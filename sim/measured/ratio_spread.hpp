#pragma once
// The accuracy of ratios of predictions: the spread of their errors among configurations of one model on one
// site's devices. An error that all configurations share cancels in a ratio.

#include <cstddef>

#include "sim/measured/measured_runs.hpp"
#include "sim/measured/predicted_runs.hpp"

namespace penstock {

struct RatioSpread {
  /// Standard deviation of log(predicted / measured) around the mean of its group, pooled over all groups of
  /// at least two rows.
  double deviation = 0;
  std::size_t rows = 0;    ///< number of rows in groups of at least two rows
  std::size_t groups = 0;  ///< number of those groups; each has one source, device, precision and model
};

/// Computes the spread. `report` must be the report of `runs`.
RatioSpread ratio_spread(const MeasuredRuns& runs, const RunsReport& report);

}  // namespace penstock
