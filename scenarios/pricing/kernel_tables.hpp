#pragma once
// Measured kernels of one accelerator: matrix products, causal attention, and collectives inside one NVLink
// domain. They are read from files of scenarios/library/kernels, or of the same form. The top of
// kernel_tables.cpp explains the look-up.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "scenarios/pricing/gemm_model.hpp"
#include "scenarios/pricing/log_grid.hpp"
#include "scenarios/pricing/product_table.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The precision of a matrix product.
enum class GemmPrecision : std::uint8_t { bf16, fp8, fp4 };
template <>
inline constexpr auto kEnumWords<GemmPrecision> = std::to_array<EnumWord<GemmPrecision>>(
    {{GemmPrecision::bf16, "bf16"}, {GemmPrecision::fp8, "fp8"}, {GemmPrecision::fp4, "fp4"}});
inline constexpr std::size_t kGemmPrecisionCount = kEnumWords<GemmPrecision>.size();

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

/// The speed of a device relative to the one on which the tables were measured; 1 means equal.
struct KernelSpeeds {
  /// The speed of products by precision; attention uses that of bf16.
  std::array<double, kGemmPrecisionCount> products = {1, 1, 1};
  /// The speed of the NVLink domain.
  double links = 1;

  friend bool operator==(const KernelSpeeds&, const KernelSpeeds&) = default;
};

/// The tables of one kind of device. If a table is missing, a model replaces it. For matrix products it is
/// the compact model (gemm_model.hpp), for attention a share of the peak (layer_terms.cpp), and for
/// collectives the links' bandwidth (collectives.cpp).
class KernelTables {
 public:
  // Each function replaces what was read before; read_gemms() replaces only the precisions in its text.

  /// Reads lines "dtype,m,n,k,us" with a header, for a grid of sizes with few holes. Error: "LINE: what is
  /// wrong".
  tl::expected<void, std::string> read_gemms(std::string_view text, const DeviceRates& rates);
  /// Reads lines "dtype,head_dim,heads,kv_heads,batch,seq,us"; only those of bf16 are used.
  tl::expected<void, std::string> read_attention(std::string_view text);
  /// Reads lines with the columns "op_name,nccl_dtype,num_gpus,message_size,latency" among others: elements
  /// of the whole tensor and milliseconds. Only lines with type half and at least two devices are used.
  tl::expected<void, std::string> read_collectives(std::string_view text);
  /// Reads a machine's own products (ProductTable::parse), which take precedence for their shapes.
  tl::expected<void, std::string> read_products(std::string_view text);
  /// Sets the compact model's constants {"GPU/dtype": [e, kk, s, bw, t0, tail, q]} of one GPU.
  void set_gemm_model(GemmPrecision precision, const GemmConstants& constants);
  /// Scales the tables to a device that is faster or slower. Models are not changed, because they use the
  /// device's own rates (DeviceRates). Requires speeds > 0.
  void scale(const KernelSpeeds& speeds);

  /// Returns the seconds of one product without quantising its inputs, in a short burst. Returns nothing if
  /// there is neither a table nor a model.
  std::optional<double> gemm_seconds(GemmPrecision precision, const GemmShape& shape,
                                     const DeviceRates& rates) const;
  /// Returns the operations a second of causal forward attention, counted as 2 x 2 x head_dim x heads x batch
  /// x sequence^2 / 2. Returns nothing if there is no table.
  std::optional<double> attention_rate(const AttentionShape& shape) const;
  /// Returns the seconds of a collective of `devices` on one NVLink domain over a tensor of `bytes`. These
  /// are the whole tensor that is gathered or scattered, or one device's buffer of an all-to-all. Returns
  /// nothing if there is no table.
  std::optional<double> collective_seconds(GroupOperation operation, std::int32_t devices,
                                           double bytes) const;

  const ProductTable& products() const { return products_; }
  bool has_gemms(GemmPrecision precision) const { return !gemms_[index_of(precision)].empty(); }

 private:
  static std::size_t index_of(GemmPrecision precision) { return static_cast<std::size_t>(precision); }

  struct AttentionGrid {  // for one head_dim and batch
    double head_dim = 0;
    double batch = 0;
    std::map<std::pair<double, double>, std::map<double, double>>
        rates;  // (heads, kv heads) -> sequence -> rate
  };
  const AttentionGrid* nearest_attention(const AttentionShape& shape) const;

  std::array<LogGrid<3>, kGemmPrecisionCount> gemms_;  // operations a second by m, n, k
  ProductTable products_;
  std::array<std::optional<GemmConstants>, kGemmPrecisionCount> models_;
  std::vector<AttentionGrid> attention_;
  std::array<std::map<std::int32_t, std::map<double, double>>, kGroupOperationCount>
      collectives_;  // s by bytes
};

}  // namespace penstock
