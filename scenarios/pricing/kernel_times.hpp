#pragma once
// The three sources of a kernel's time. modelled_gemm_seconds() is a formula for matrix products.
// ProductTable has the times that the user measured for exact product shapes. LogGrid interpolates between
// measured sizes. KernelTables chooses between them (kernel_tables.hpp).

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The arithmetic and memory rates of a device.
struct DeviceRates {
  /// The device's rate of dense operations in the product's precision, in operations a second. It is
  /// greater than 0.
  double flops_per_second = 0;
  double memory_bytes_per_second = 0;
  double multiprocessors = 1;
};

/// The constants of the formula for matrix products, fitted for one device and precision. Their short names
/// are those in the formula.
struct GemmConstants {
  /// The constant e, which is the share of the peak that a wave of large tiles reaches.
  double tile_efficiency = 1;
  /// The constant kk, which is the cost of the start and end of a tile, in steps of k.
  double extra_depth = 0;
  /// The constant s, which determines how fast the rate falls for small tiles.
  double small_tiles = 0;
  /// The constant bw, which is the share of the memory rate that a product reaches.
  double memory_efficiency = 1;
  /// The constant t0: the time to launch the kernel, in microseconds.
  double launch_us = 0;
  /// The constant tail, which is the share of the last wave's idle time that is counted.
  double tail = 1;
  /// The constant q, which is the number of bytes that quantising moves for each element of the m x k input.
  double quantise = 0;
};

/// Returns the seconds of the matrix product Y[m, n] = X[m, k] W[k, n] by a formula. A value of the inputs
/// has `value_bytes` bytes. The time includes quantising X.
double modelled_gemm_seconds(double m, double n, double k, double value_bytes, const GemmConstants& constants,
                             const DeviceRates& rates);
/// Returns the part of modelled_gemm_seconds() that quantises X. Measured times in table files also contain
/// this part. A product does not need it if another kernel quantises its input.
double quantising_seconds(double m, double k, const GemmConstants& constants, const DeviceRates& rates);

// The products of a layer, measured by the user in long training runs on one machine. So no factor between a
// short burst and a training step is needed. The table distinguishes the forward product and the two
// gradients.

/// The shape of Y[m, n] = X[m, k] W[k, n].
struct GemmShape {
  double m = 1;
  double n = 1;
  double k = 1;
  double flops() const { return 2 * m * n * k; }
};

/// The three products for a layer's Y = X W in a training step.
enum class Product : std::uint8_t {
  forward,          // Y = X W
  input_gradient,   // dX = dY W^T
  weight_gradient,  // dW = X^T dY, and its addition to the sum over microbatches
};
template <>
inline constexpr auto kEnumWords<Product> =
    std::to_array<EnumWord<Product>>({{Product::forward, "forward"},
                                      {Product::input_gradient, "input-gradient"},
                                      {Product::weight_gradient, "weight-gradient"}});
inline constexpr std::size_t kProductCount = kEnumWords<Product>.size();

/// Returns the shape of one of the three products. `forward` is the shape of the forward product Y[m, n] =
/// X[m, k] W[k, n].
GemmShape shape_of(Product product, const GemmShape& forward);

class GroupedRates;

/// The matrix products that the user measured on one machine, each for an exact shape.
class ProductTable {
 public:
  /// Reads a header and lines "product,groups,m,n,k,us", for values of 16 bits. A line has the time of
  /// `groups` products that run at the same time, each with m rows. Lines of equal shapes are averaged.
  /// Returns an error of the form "LINE: what is wrong".
  static tl::expected<ProductTable, std::string> parse(std::string_view text);

  /// Returns the seconds of `groups` products with exactly this shape, or nothing if they were not
  /// measured.
  std::optional<double> seconds(Product product, double groups, const GemmShape& shape) const;

  /// Returns the rates of all measured products with several groups, as shares of the peak rate
  /// `flops_per_second`.
  GroupedRates grouped_rates(double flops_per_second) const;

  bool empty() const { return size() == 0; }
  std::size_t size() const;

 private:
  using Key = std::array<double, 4>;  // groups, m, n, k
  std::array<std::map<Key, double>, kProductCount> seconds_;
};

// A function of sizes that is known at the points of a grid. Between the points, it is linear in the
// logarithms of sizes and values. Outside the grid, it is constant.

/// A table of a positive figure that depends on `Axes` positive sizes. It interpolates between the points
/// of a grid. A grid point without a figure gets the figure of the nearest point that has one. The distance
/// is measured in logarithms.
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

/// The rates of matrix products that run in groups, as those of a layer's experts do. A rate depends on the
/// product, on the rows of a group, and on the shape of a weight.
class GroupedRates {
 public:
  /// Adds a measured rate, as a share of the device's peak. `forward` is the shape of the group's forward
  /// product, whichever of the three products is measured.
  void add(Product product, const GemmShape& forward, double share);

  /// Returns the share of the peak rate that the product reaches. It uses the measured weight whose shape
  /// is nearest, and interpolates between its rates in the logarithm of the rows. Groups with fewer rows
  /// than measured take as long as the smallest measured groups. Requires !empty().
  double share(Product product, const GemmShape& forward) const;

  bool empty() const { return curves_.front().empty(); }

 private:
  using Curve = std::map<std::array<double, 1>, double>;  // rows of a group -> share of the peak
  std::array<std::map<std::array<double, 2>, Curve>, kProductCount>
      curves_;  // by n and k of the forward product
};

}  // namespace penstock
