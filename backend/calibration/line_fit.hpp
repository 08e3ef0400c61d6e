#pragma once
// Medians, their spread, and lines through them: the arithmetic of calibration.hpp.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// Repeated measurements of one thing.
struct Spread {
  Ns median_ns = 0;
  Ns middle_half_ns = 0;  ///< third minus first quartile
  std::int64_t samples = 0;

  /// middle_half_ns over median_ns; 0 where the median is 0.
  double relative() const {
    return median_ns > 0 ? static_cast<double>(middle_half_ns) / static_cast<double>(median_ns) : 0;
  }
  friend bool operator==(const Spread&, const Spread&) = default;
};

/// All 0 without samples. Of an even number the lower of the two in the middle is the median.
Spread spread_of(std::vector<Ns> samples);

/// y = constant + slope * x.
struct Line {
  double constant = 0;
  double slope = 0;
  double slope_error = 0;  ///< standard error of the slope; 0 for fewer than three points

  double at(double x) const { return constant + slope * x; }
  friend bool operator==(const Line&, const Line&) = default;
};

struct LinePoint {
  double x = 0;
  double y = 0;
};

/// The line of least squares. All points at one x: a level line through their mean.
Line fit_line(const std::vector<LinePoint>& points);

}  // namespace penstock
