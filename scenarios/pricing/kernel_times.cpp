// Models the time t of a matrix product that is divided into tiles of tm x tn. The multiprocessors (SMs)
// compute the tiles in w = ceil(m/tm) ceil(n/tn) / SMs waves. The time is computed for six tile sizes. The
// shortest of the six times is the result:
//
//   waves  = (1 - tail) ceil(w) + tail max(w, 1)        a last wave that is not full costs up to a full one
//   rel    = min(1, (tm tn / 32768)^s)                  small tiles load more for each operation
//   t_tile = waves 2 tm tn (k + kk) / (e rel peak / SMs)
//   t_mem  = bytes of X, W and Y / (bw x memory rate)
//   t      = t0 + q m k / memory rate + (t_tile^4 + t_mem^4)^(1/4)
//
// Each device and precision has seven constants. For sizes of at least 1024 that were not used in the fit,
// the error is 4 to 7 %. kernel_tables.cpp uses measured products instead if they exist. Tested by
// kernel_tables_test.cpp.

#include "scenarios/pricing/kernel_tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "text/csv_table.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

struct Tile {
  double m;
  double n;
};
constexpr std::array<Tile, 6> kTiles = {{{.m = 256, .n = 128},
                                         {.m = 128, .n = 256},
                                         {.m = 128, .n = 128},
                                         {.m = 128, .n = 64},
                                         {.m = 64, .n = 128},
                                         {.m = 256, .n = 256}}};
constexpr double kFullTile = 32768;
/// The share of the launch overhead that is due to the separate quantising kernel.
constexpr double kQuantisingLaunch = 0.6;

}  // namespace

double modelled_gemm_seconds(double m, double n, double k, double value_bytes, const GemmConstants& constants,
                             const DeviceRates& rates) {
  double tiles_s = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double w = std::ceil(m / tile.m) * std::ceil(n / tile.n) / rates.multiprocessors;
    const double waves = (1 - constants.tail) * std::ceil(w) + constants.tail * std::max(w, 1.0);
    const double relative = std::min(1.0, std::pow(tile.m * tile.n / kFullTile, constants.small_tiles));
    const double rate = constants.tile_efficiency * relative * rates.flops_per_second / rates.multiprocessors;
    tiles_s = std::min(tiles_s, waves * 2 * tile.m * tile.n * (k + constants.extra_depth) / rate);
  }
  // The values of X and W have the product's precision, and the values of Y always have 2 bytes.
  const double bytes = value_bytes * (m * k + k * n) + 2 * m * n;
  const double memory_s = bytes / (constants.memory_efficiency * rates.memory_bytes_per_second);
  // This soft maximum is close to the longer time if the two times differ much. If they are equal, it is a
  // fifth longer, because computation and transfers then slow each other down.
  const double overlapped_s = std::pow(std::pow(tiles_s, 4) + std::pow(memory_s, 4), 0.25);
  return constants.launch_us * kSecondsPerMicrosecond +
         constants.quantise * m * k / rates.memory_bytes_per_second + overlapped_s;
}

double quantising_seconds(double m, double k, const GemmConstants& constants, const DeviceRates& rates) {
  if (constants.quantise == 0) return 0;  // products of 16 bits read their input directly
  return constants.quantise * m * k / rates.memory_bytes_per_second +
         kQuantisingLaunch * constants.launch_us * kSecondsPerMicrosecond;
}

// A table of products that the user measured is not interpolated, because the times of neighbouring shapes
// differ too much. The user can measure exactly the shapes of the model. For other shapes, the device's
// tables of short bursts and its sustained factor are used (kernel_tables.cpp).
//
//     Y[m, n] = X[m, k] W[k, n]        dX[m, k] = dY[m, n] W^T        dW[n, k] = dY^T X over m rows
//
// Tests: tests/scenarios/kernel_tables_test.cpp.

namespace {

/// The sum and the number of the measured times of one shape, for their mean.
struct Mean {
  double sum = 0;
  double rows = 0;
};

}  // namespace

GemmShape shape_of(Product product, const GemmShape& forward) {
  const auto [m, n, k] = forward;
  switch (product) {
    case Product::forward:
      return forward;
    case Product::input_gradient:
      return {.m = m, .n = k, .k = n};
    case Product::weight_gradient:
      return {.m = n, .n = k, .k = m};
  }
  return forward;
}

namespace {

/// Returns the shape of the forward product. `shape` is the shape of one of the three products: forward,
/// gradient of the input, or gradient of the weights.
GemmShape forward_of(Product product, const GemmShape& shape) {
  const auto [m, n, k] = shape;
  switch (product) {
    case Product::forward:
      return shape;
    case Product::input_gradient:
      return {.m = m, .n = k, .k = n};
    case Product::weight_gradient:
      return {.m = k, .n = m, .k = n};
  }
  return shape;
}

}  // namespace

tl::expected<ProductTable, std::string> ProductTable::parse(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kColumns = {"product", "groups", "m", "n", "k", "us"};
  const auto table = CsvTable::parse(text, kColumns);
  if (!table) return tl::unexpected(table.error());
  std::array<std::map<Key, Mean>, kProductCount> means;
  for (std::size_t row = 0; row < table->row_count(); ++row) {
    const std::string& name = table->cell(row, "product");
    const auto product = enum_of_text<Product>(name);
    if (!product) {
      return tl::unexpected(
          fmt::format("{}: product: expected forward, input-gradient or weight-gradient, got \"{}\"",
                      table->line(row), name));
    }
    std::array<double, 5> figures{};
    for (std::size_t i = 0; i < figures.size(); ++i) {
      const auto figure = table->positive(row, kColumns[i + 1]);
      if (!figure) return tl::unexpected(figure.error());
      figures[i] = *figure;
    }
    const auto [groups, m, n, k, us] = figures;
    Mean& mean =
        // A shape may occur in several rows of the table, so the mean of their times is used.
        means[static_cast<std::size_t>(*product)][{groups, m, n, k}];
    mean.sum += us * kSecondsPerMicrosecond;
    mean.rows += 1;
  }
  ProductTable products;
  for (std::size_t i = 0; i < kProductCount; ++i) {
    for (const auto& [key, mean] : means[i]) products.seconds_[i][key] = mean.sum / mean.rows;
  }
  return products;
}

std::optional<double> ProductTable::seconds(Product product, double groups, const GemmShape& shape) const {
  const auto& of_product = seconds_[static_cast<std::size_t>(product)];
  const auto found = of_product.find({groups, shape.m, shape.n, shape.k});
  if (found == of_product.end()) return std::nullopt;
  return found->second;
}

std::size_t ProductTable::size() const {
  return std::accumulate(seconds_.begin(), seconds_.end(), std::size_t{0},
                         [](std::size_t sum, const auto& one) { return sum + one.size(); });
}

GroupedRates ProductTable::grouped_rates(double flops_per_second) const {
  GroupedRates rates;
  for (std::size_t i = 0; i < kProductCount; ++i) {
    for (const auto& [key, seconds] : seconds_[i]) {
      const auto [groups, m, n, k] = key;
      if (groups <= 1) continue;
      const GemmShape shape{.m = m, .n = n, .k = k};
      const auto product = static_cast<Product>(i);
      rates.add(product, forward_of(product, shape), groups * shape.flops() / (seconds * flops_per_second));
    }
  }
  return rates;
}

// The rates of kernels are interpolated by size. They are smooth functions of logarithms, so linear
// interpolation in logarithms is accurate to a few percent:
//
//    log f(x) = sum over the 2^d corners c of the cell around log x:  weight_c(log x) log f(c)
//
// The weight of a corner is the product of the distances to the opposite sides of the cell. Outside the grid,
// the figure at the border applies.

namespace {

/// The cell of an axis that contains a size: the index of the cell's lower end, and the position of the size
/// inside the cell.
struct Cell {
  std::size_t lower = 0;
  double way = 0;  // the position in the cell, from 0 at the lower end to 1 at the upper end
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

// Grouped products multiply the rows of each expert by the expert's own weights. With few rows a group reads
// its weights for little work, so its rate is a fraction of what a single product of all rows reaches:
//
//   rows of a group (3072 x 5120)      154   308   616  1232  2460
//   forward on a B200, of its peak    0.20  0.37  0.47  0.48  0.49
//
// Tested by kernel_tables_test.cpp.

void GroupedRates::add(Product product, const GemmShape& forward, double share) {
  curves_[static_cast<std::size_t>(product)][{forward.n, forward.k}][{forward.m}] = share;
}

double GroupedRates::share(Product product, const GemmShape& forward) const {
  const auto& curves = curves_[static_cast<std::size_t>(product)];
  const auto distance = [&](const auto& curve) {
    const auto [n, k] = curve.first;
    return square_distance<2>({std::log(n), std::log(k)}, {std::log(forward.n), std::log(forward.k)});
  };
  const Curve& nearest = std::ranges::min_element(curves, {}, distance)->second;
  const double least = nearest.begin()->first.front();
  return LogGrid<1>(nearest).at({forward.m}) * std::min(1.0, forward.m / least);
}

}  // namespace penstock
