#pragma once
// Computes medians, their spread, and lines through points. calibration.hpp uses it.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// The median and the spread of repeated measurements of one quantity.
struct Spread {
  Ns median_ns = 0;
  Ns middle_half_ns = 0;  ///< third quartile minus first quartile of the samples
  std::int64_t samples = 0;

  /// Returns middle_half_ns / median_ns, or 0 if the median is 0.
  double relative() const {
    return median_ns > 0 ? static_cast<double>(middle_half_ns) / static_cast<double>(median_ns) : 0;
  }
  friend bool operator==(const Spread&, const Spread&) = default;
};

/// Returns the spread of the samples. All fields are 0 if there are no samples. If their number is even, the
/// lower middle value is the median.
Spread spread_of(std::vector<Ns> samples);

/// A line y = constant + slope * x.
struct Line {
  double constant = 0;
  double slope = 0;
  double slope_error = 0;  ///< standard error of the slope; 0 if there are fewer than three points

  double at(double x) const { return constant + slope * x; }
  friend bool operator==(const Line&, const Line&) = default;
};

struct LinePoint {
  double x = 0;
  double y = 0;
};

/// Returns the line of least squares. If all points have the same x, returns a horizontal line through their
/// mean.
Line fit_line(const std::vector<LinePoint>& points);

}  // namespace penstock
