// Interpolates the rates of kernels by size. Rates are smooth functions of logarithms, so linear
// interpolation in logarithms is accurate to a few percent:
//
//    log f(x) = sum over the 2^d corners c of the cell around log x:  weight_c(log x) log f(c)
//
// The weights are products of the distances to the opposite sides. Beyond an edge, the figure of the edge
// applies. Tested by kernel_tables_test.cpp.

#include "scenarios/pricing/log_grid.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace penstock {
namespace {

/// The cell of an axis that contains a size. It has the index of its lower end, and the relative position of
/// the size in the cell.
struct Cell {
  std::size_t lower = 0;
  double way = 0;  // from 0 to 1
};

Cell cell_of(const std::vector<double>& axis, double size) {
  if (size <= axis.front()) return {.lower = 0, .way = 0};
  if (size >= axis.back()) return {.lower = axis.size() - 1, .way = 0};
  const auto upper = std::ranges::upper_bound(axis, size);
  const auto lower = std::prev(upper);
  return {.lower = static_cast<std::size_t>(std::distance(axis.begin(), lower)),
          .way = (size - *lower) / (*upper - *lower)};
}

template <std::size_t Axes>
double square_distance(const std::array<double, Axes>& a, const std::array<double, Axes>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < Axes; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

}  // namespace

template <std::size_t Axes>
LogGrid<Axes>::LogGrid(const std::map<Point, double>& figures) {
  std::vector<std::pair<Point, double>> known;
  known.reserve(figures.size());
  for (const auto& [sizes, figure] : figures) {
    Point point = sizes;
    for (double& size : point) size = std::log(size);
    known.emplace_back(point, std::log(figure));
    for (std::size_t i = 0; i < Axes; ++i) axes_[i].push_back(point[i]);
  }
  std::size_t count = 1;
  for (std::vector<double>& axis : axes_) {
    std::ranges::sort(axis);
    axis.erase(std::ranges::unique(axis).begin(), axis.end());
    count *= axis.size();
  }
  // NaN marks points without a measurement, because not every combination of sizes was measured.
  figures_.assign(count, std::numeric_limits<double>::quiet_NaN());
  for (const auto& [point, figure] : known) {
    std::array<std::size_t, Axes> steps{};
    // A point of the grid is the lower end of its own cell.
    for (std::size_t i = 0; i < Axes; ++i) steps[i] = cell_of(axes_[i], point[i]).lower;
    figures_[place(steps)] = figure;
  }
  for (std::size_t i = 0; i < count; ++i) {
    // A point without a measurement gets the figure of the nearest measured point.
    if (!std::isnan(figures_[i])) continue;
    Point hole{};
    std::size_t rest = i;
    // This loop inverts place(), in which the last axis varies fastest.
    for (std::size_t axis = Axes; axis-- > 0;) {
      hole[axis] = axes_[axis][rest % axes_[axis].size()];
      rest /= axes_[axis].size();
    }
    figures_[i] = std::ranges::min_element(known, {}, [&](const auto& entry) {
                    return square_distance(entry.first, hole);
                  })->second;
  }
}

template <std::size_t Axes>
std::size_t LogGrid<Axes>::place(const std::array<std::size_t, Axes>& steps) const {
  std::size_t place = 0;
  for (std::size_t i = 0; i < Axes; ++i) place = place * axes_[i].size() + steps[i];
  return place;
}

template <std::size_t Axes>
double LogGrid<Axes>::at(const Point& sizes) const {
  std::array<Cell, Axes> cells{};
  for (std::size_t i = 0; i < Axes; ++i) cells[i] = cell_of(axes_[i], std::log(sizes[i]));
  double sum = 0;
  for (std::size_t corner = 0; corner < (std::size_t{1} << Axes); ++corner) {
    double weight = 1;
    std::array<std::size_t, Axes> steps{};
    for (std::size_t i = 0; i < Axes; ++i) {
      const bool is_upper = ((corner >> i) & 1U) != 0;
      weight *= is_upper ? cells[i].way : 1 - cells[i].way;
      // A corner with weight 0 uses the lower end, so that no index exceeds the axis.
      steps[i] = cells[i].lower + (is_upper && cells[i].way > 0 ? 1 : 0);
    }
    if (weight > 0) sum += weight * figures_[place(steps)];
  }
  return std::exp(sum);
}

template <std::size_t Axes>
void LogGrid<Axes>::scale(double factor) {
  for (double& figure : figures_) figure += std::log(factor);
}

template class LogGrid<1>;
template class LogGrid<2>;
template class LogGrid<3>;

}  // namespace penstock
