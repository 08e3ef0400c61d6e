// Fits a line of least squares. slope = sum (x - mean x)(y - mean y) / sum (x - mean x)^2. The standard error
// of the slope is sqrt(sum of squared residuals / (n - 2) / sum (x - mean x)^2). The means are subtracted
// first, because the squares of large x (bytes up to 10^9) would lose precision.

#include "backend/calibration/line_fit.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

Spread spread_of(std::vector<Ns> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  const std::size_t last = samples.size() - 1;
  return {.median_ns = samples[last / 2],
          .middle_half_ns = samples[last - last / 4] - samples[last / 4],
          .samples = static_cast<std::int64_t>(samples.size())};
}

Line fit_line(const std::vector<LinePoint>& points) {
  if (points.empty()) return {};
  const auto count = static_cast<double>(points.size());
  double mean_x = 0;
  double mean_y = 0;
  for (const LinePoint& point : points) {
    mean_x += point.x / count;
    mean_y += point.y / count;
  }
  double of_x = 0;
  double of_xy = 0;
  for (const LinePoint& point : points) {
    of_x += (point.x - mean_x) * (point.x - mean_x);
    of_xy += (point.x - mean_x) * (point.y - mean_y);
  }
  // If all points have the same x, there is no slope. The negated comparison is also true for NaN.
  if (!(of_x > 0)) return {.constant = mean_y};
  Line line{.slope = of_xy / of_x};
  line.constant = mean_y - line.slope * mean_x;
  // The error cannot be estimated from only two points.
  if (points.size() < 3) return line;
  double residual = 0;
  for (const LinePoint& point : points) residual += std::pow(point.y - line.at(point.x), 2);
  line.slope_error = std::sqrt(residual / (count - 2) / of_x);
  return line;
}

}  // namespace penstock
