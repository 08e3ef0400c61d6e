#pragma once
// The three sources of a kernel's time. modelled_gemm_seconds() is a formula for matrix products.
// ProductTable has the times that the user measured for exact product shapes. LogGrid interpolates between
// measured sizes. KernelTables chooses between them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "text/enum_words.hpp"  // IWYU pragma: export
#include "topology/presets.hpp"

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
  using Key = std::array<double, 4>;  // the key of a measured time: groups, m, n, k
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

  std::array<std::vector<double>, Axes> axes_;  // the logarithms of the sizes on each axis, ascending
  std::vector<double> figures_;                 // the logarithms of the figures; the last axis varies fastest
};

extern template class LogGrid<1>;
extern template class LogGrid<2>;
extern template class LogGrid<3>;

/// The rates of matrix products that run in groups, as those of a layer's experts do. A rate depends on the
/// product, on the rows of a group, and on the shape of a weight.
class GroupedRates {
 public:
  /// Adds a measured rate, as a share of the device's peak. `forward` is the shape of the group's forward
  /// product, even if `product` is one of the other two products.
  void add(Product product, const GemmShape& forward, double share);

  /// Returns the share of the peak rate that the product reaches. It uses the measured weight whose shape
  /// is nearest, and interpolates between its rates in the logarithm of the rows. Groups with fewer rows
  /// than measured take as long as the smallest measured groups. Requires !empty().
  double share(Product product, const GemmShape& forward) const;

  bool empty() const { return curves_.front().empty(); }

 private:
  using Curve = std::map<std::array<double, 1>, double>;  // the shares of the peak, by rows of a group
  // The curve of each forward product, by its n and k.
  std::array<std::map<std::array<double, 2>, Curve>, kProductCount> curves_;
};

// Measured kernels of one accelerator: matrix products, causal attention, and collectives inside one NVLink
// domain. They are read from files in the format of scenarios/library/kernels. The comment at the top of
// kernel_tables.cpp explains how a time is looked up.

/// The precision of a matrix product.
enum class GemmPrecision : std::uint8_t { bf16, fp8, fp4 };
template <>
inline constexpr auto kEnumWords<GemmPrecision> = std::to_array<EnumWord<GemmPrecision>>(
    {{GemmPrecision::bf16, "bf16"}, {GemmPrecision::fp8, "fp8"}, {GemmPrecision::fp4, "fp4"}});
inline constexpr std::size_t kGemmPrecisionCount = kEnumWords<GemmPrecision>.size();

/// Returns the bytes of one value.
double value_bytes(GemmPrecision precision);

/// The shape of causal attention over `batch` sequences.
struct AttentionShape {
  double head_dim = 128;
  double heads = 1;
  double kv_heads = 1;
  double batch = 1;
  double sequence = 1;
};

/// The collectives of a group of devices.
enum class GroupOperation : std::uint8_t { all_gather, reduce_scatter, all_reduce, all_to_all };
inline constexpr std::size_t kGroupOperationCount = 4;

/// The speeds of a device relative to the device on which the tables were measured. The value 1 means equal.
struct KernelSpeeds {
  /// The relative speed of matrix products for each precision. Attention uses the speed of bf16.
  std::array<double, kGemmPrecisionCount> products = {1, 1, 1};
  /// The relative speed of the links in an NVLink domain.
  double links = 1;

  friend bool operator==(const KernelSpeeds&, const KernelSpeeds&) = default;
};

/// The tables of measured kernel times for one kind of device. Each missing table is replaced. Matrix
/// products then use modelled_gemm_seconds(), attention a share of the peak (layer_terms.cpp), and
/// collectives the links' bandwidth (collectives.cpp).
class KernelTables {
 public:
  // Each of the next functions replaces the data that it read before. read_gemms() replaces only the data of
  // the precisions in its text.

  /// Reads a table of matrix products: a header and lines "dtype,m,n,k,us". The sizes must form a grid with
  /// few holes. Returns an error of the form "LINE: what is wrong".
  tl::expected<void, std::string> read_gemms(std::string_view text, const DeviceRates& rates);
  /// Reads lines "dtype,head_dim,heads,kv_heads,batch,seq,us". Only lines of bf16 are used.
  tl::expected<void, std::string> read_attention(std::string_view text);
  /// Reads lines with at least the columns "op_name,nccl_dtype,num_gpus,message_size,latency". The message
  /// size is in elements of the whole tensor, and the latency in milliseconds. Only lines with type half and
  /// at least two devices are used.
  tl::expected<void, std::string> read_collectives(std::string_view text);
  /// Reads a table of matrix products that the user measured (ProductTable::parse). For their exact shapes,
  /// these times take precedence over all other tables.
  tl::expected<void, std::string> read_products(std::string_view text);
  /// Sets the constants of the formula for matrix products (modelled_gemm_seconds()) in one precision.
  void set_gemm_model(GemmPrecision precision, const GemmConstants& constants);
  /// Scales the measured tables to a device that is faster or slower. It does not change the formulas,
  /// because these use the device's own rates (DeviceRates). Requires speeds > 0.
  void scale(const KernelSpeeds& speeds);

  /// Returns the seconds of one matrix product, measured in a short burst. In a training step, this time is
  /// multiplied by the device's sustained factor. The time to quantise the inputs is not included. Returns
  /// nothing if there is neither a table nor a formula for the precision.
  std::optional<double> gemm_seconds(GemmPrecision precision, const GemmShape& shape,
                                     const DeviceRates& rates) const;
  /// Returns the operations a second of causal attention in the forward pass. The number of operations is 2 x
  /// 2 x head_dim x heads x batch x sequence^2 / 2. Returns nothing if there is no table.
  std::optional<double> attention_rate(const AttentionShape& shape) const;
  /// Returns the seconds of a collective among `devices` devices in one NVLink domain. For an all-to-all,
  /// `bytes` is the size of one device's buffer. For other collectives, it is the size of the whole tensor
  /// that is gathered, scattered or reduced. Returns nothing if there is no table.
  std::optional<double> collective_seconds(GroupOperation operation, std::int32_t devices,
                                           double bytes) const;

  const ProductTable& products() const { return products_; }
  /// Returns the rates of grouped products, such as those of experts, measured in a short burst. The result
  /// is empty if no table contains such rates.
  const GroupedRates& grouped() const { return grouped_; }
  /// Sets the rates of grouped products, as shares of the peak rate. The shares apply to any device.
  void set_grouped(GroupedRates rates) { grouped_ = std::move(rates); }
  bool has_gemms(GemmPrecision precision) const { return !gemms_[index_of(precision)].empty(); }

 private:
  static std::size_t index_of(GemmPrecision precision) { return static_cast<std::size_t>(precision); }

  struct AttentionGrid {  // the rates that were measured with one head_dim and batch
    double head_dim = 0;
    double batch = 0;
    // The operations a second, by heads and kv heads, and then by sequence.
    std::map<std::pair<double, double>, std::map<double, double>> rates;
  };
  const AttentionGrid* nearest_attention(const AttentionShape& shape) const;

  std::array<LogGrid<3>, kGemmPrecisionCount> gemms_;  // the operations a second, by m, n and k
  ProductTable products_;
  GroupedRates grouped_;
  std::array<std::optional<GemmConstants>, kGemmPrecisionCount> models_;
  std::vector<AttentionGrid> attention_;
  // The seconds of each collective, by devices and then by bytes.
  std::array<std::map<std::int32_t, std::map<double, double>>, kGroupOperationCount> collectives_;
};

// The kernel tables in scenarios/library/kernels, which are compiled into the program.

/// A table file that is built into the program, with its name and its text.
struct KernelText {
  /// The file name, such as "gemm_H100.csv".
  std::string_view file;
  std::string_view text;
};
/// Returns the table files that are built into the program. CMake generates the definition of this function
/// from them.
std::span<const KernelText> kernel_texts();

/// Returns the tables of a kind of device. The first call reads them, and later calls share them. Several
/// threads may call it.
std::shared_ptr<const KernelTables> built_in_kernels(const DeviceType& device);

/// Returns the tables for a device as the scenario states it. If its peak rates or its NVLink rate differ
/// from those of the measured device, the tables are scaled copies (KernelTables::scale). Each rate that
/// the measured device has must be above 0.
std::shared_ptr<const KernelTables> stated_kernels(const DeviceType& device);

}  // namespace penstock
