#pragma once
// Measured kernels of one accelerator: matrix products, causal attention, and collectives inside one NVLink
// domain. They are read from files in the format of scenarios/library/kernels. The comment at the top of
// kernel_tables.cpp explains how a time is looked up.

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

#include "scenarios/pricing/kernel_times.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export
#include "topology/device_types.hpp"

namespace penstock {

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

/// The tables of measured kernel times for one kind of device. A model replaces a missing table. For matrix
/// products, it is the one of kernel_times.hpp. For attention, it is a share of the peak (layer_terms.cpp).
/// For collectives, it is the links' bandwidth (collectives.cpp).
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
  /// Returns the rates of grouped products, such as those of experts, measured in a short burst. They are
  /// empty if no table has any.
  const GroupedRates& grouped() const { return grouped_; }
  /// Sets the rates of grouped products, as shares of the peak rate. The shares apply to any device.
  void set_grouped(GroupedRates rates) { grouped_ = std::move(rates); }
  bool has_gemms(GemmPrecision precision) const { return !gemms_[index_of(precision)].empty(); }

 private:
  static std::size_t index_of(GemmPrecision precision) { return static_cast<std::size_t>(precision); }

  struct AttentionGrid {  // the grid of one head_dim and batch
    double head_dim = 0;
    double batch = 0;
    std::map<std::pair<double, double>, std::map<double, double>>
        rates;  // (heads, kv heads) -> sequence -> rate
  };
  const AttentionGrid* nearest_attention(const AttentionShape& shape) const;

  std::array<LogGrid<3>, kGemmPrecisionCount> gemms_;  // operations a second by m, n, k
  ProductTable products_;
  GroupedRates grouped_;
  std::array<std::optional<GemmConstants>, kGemmPrecisionCount> models_;
  std::vector<AttentionGrid> attention_;
  std::array<std::map<std::int32_t, std::map<double, double>>, kGroupOperationCount>
      collectives_;  // seconds by bytes
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
