#pragma once
// A function of sizes that is known at the points of a grid. Between them it is linear in the logarithms of
// sizes and values, and beyond the edges it is constant.

#include <array>
#include <cstddef>
#include <map>
#include <vector>

namespace penstock {

/// A positive figure that depends on `Axes` positive sizes. Grid points without a given figure get that of
/// the nearest given one, by distance in logarithms.
template <std::size_t Axes>
class LogGrid {
 public:
  using Point = std::array<double, Axes>;

  LogGrid() = default;
  /// Requires at least one figure, and sizes and figures > 0.
  explicit LogGrid(const std::map<Point, double>& figures);

  bool empty() const { return figures_.empty(); }
  /// Returns the figure at the sizes. Requires !empty() and sizes > 0.
  double at(const Point& sizes) const;
  /// Multiplies all figures. Requires a factor > 0.
  void scale(double factor);

 private:
  std::size_t place(const std::array<std::size_t, Axes>& steps) const;

  std::array<std::vector<double>, Axes> axes_;  // logarithms, ascending
  std::vector<double> figures_;                 // logarithms, the last axis fastest
};

extern template class LogGrid<1>;
extern template class LogGrid<2>;
extern template class LogGrid<3>;

}  // namespace penstock
