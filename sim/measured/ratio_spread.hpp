#pragma once
// How well predictions tell configurations apart: the spread of their errors among configurations of one
// model on one site's devices, where what is wrong with all of them alike cancels.

#include <cstddef>

#include "sim/measured/measured_runs.hpp"
#include "sim/measured/predicted_runs.hpp"

namespace penstock {

struct RatioSpread {
  /// Of log(predicted / measured) around its group's mean, pooled over groups of two rows and more.
  double deviation = 0;
  std::size_t rows = 0;    ///< of those groups
  std::size_t groups = 0;  ///< of one source, device, precision and model
};

/// Requires the report of `runs`.
RatioSpread ratio_spread(const MeasuredRuns& runs, const RunsReport& report);

}  // namespace penstock
