#pragma once
// A function of sizes that is known at the points of a grid. Between the points it is linear in the
// logarithms of sizes and values. Beyond the edges it is constant.

#include <array>
#include <cstddef>
#include <map>
#include <vector>

namespace penstock {

/// A positive figure that depends on `Axes` positive sizes. A grid point without a figure gets the figure of
/// the nearest point that has one, by distance in logarithms.
template <std::size_t Axes>
class LogGrid {
 public:
  using Point = std::array<double, Axes>;

  LogGrid() = default;
  /// Creates the grid from known figures. Requires at least one figure, and sizes and figures > 0.
  explicit LogGrid(const std::map<Point, double>& figures);

  bool empty() const { return figures_.empty(); }
  /// Returns the figure at these sizes. Requires !empty() and sizes > 0.
  double at(const Point& sizes) const;
  /// Multiplies all figures by `factor`. Requires a factor > 0.
  void scale(double factor);

 private:
  std::size_t place(const std::array<std::size_t, Axes>& steps) const;

  std::array<std::vector<double>, Axes> axes_;  // logarithms of the sizes, ascending
  std::vector<double> figures_;                 // logarithms, with the last axis varying fastest
};

extern template class LogGrid<1>;
extern template class LogGrid<2>;
extern template class LogGrid<3>;

}  // namespace penstock
