#pragma once
// Measured kernels of one accelerator: matrix products, causal attention, collectives inside one NVLink
// domain. Files of scenarios/library/kernels, or of the same form; how they are looked up is above
// kernel_tables.cpp.

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

/// The values of a matrix product.
enum class GemmPrecision : std::uint8_t { bf16, fp8, fp4 };
template <>
inline constexpr auto kEnumWords<GemmPrecision> = std::to_array<EnumWord<GemmPrecision>>(
    {{GemmPrecision::bf16, "bf16"}, {GemmPrecision::fp8, "fp8"}, {GemmPrecision::fp4, "fp4"}});
inline constexpr std::size_t kGemmPrecisionCount = kEnumWords<GemmPrecision>.size();

/// Causal attention of `batch` sequences.
struct AttentionShape {
  double head_dim = 128;
  double heads = 1;
  double kv_heads = 1;
  double batch = 1;
  double sequence = 1;
};

/// What a group of devices does together.
enum class GroupOperation : std::uint8_t { all_gather, reduce_scatter, all_reduce, all_to_all };
inline constexpr std::size_t kGroupOperationCount = 4;

/// How fast a device is, where 1 is as fast as the one that the tables were measured on.
struct KernelSpeeds {
  std::array<double, kGemmPrecisionCount> products = {1, 1, 1};  ///< by precision; attention has bf16's
  double links = 1;                                              ///< of its NVLink domain

  friend bool operator==(const KernelSpeeds&, const KernelSpeeds&) = default;
};

/// The tables of one kind of device. Where one is missing, a model takes its place: of matrix products the
/// compact one (gemm_model.hpp), of attention a part of the peak (layer_terms.cpp), of collectives the links'
/// bandwidth (collectives.cpp).
class KernelTables {
 public:
  // Each replaces what was read before: of products the precisions that the text has.

  /// Lines "dtype,m,n,k,us" with a header, of a grid of sizes with few holes. Error: "LINE: what is wrong".
  tl::expected<void, std::string> read_gemms(std::string_view text, const DeviceRates& rates);
  /// Lines "dtype,head_dim,heads,kv_heads,batch,seq,us"; those of bf16 count.
  tl::expected<void, std::string> read_attention(std::string_view text);
  /// Lines "op_name,nccl_dtype,num_gpus,message_size,latency" among others, by their header: elements of the
  /// whole tensor and milliseconds; those of half count, in groups of two devices or more.
  tl::expected<void, std::string> read_collectives(std::string_view text);
  /// A machine's own products (ProductTable::parse), which come before all others where their shape is there.
  tl::expected<void, std::string> read_products(std::string_view text);
  /// The compact model's constants {"GPU/dtype": [e, kk, s, bw, t0, tail, q]} of one GPU.
  void set_gemm_model(GemmPrecision precision, const GemmConstants& constants);
  /// Makes what was read the tables of a device that is faster or slower; requires speeds > 0. Models take
  /// the device's own rates (DeviceRates) and stay.
  void scale(const KernelSpeeds& speeds);

  /// Seconds of one product without quantising its inputs, in a short burst; nothing where neither table nor
  /// model is there.
  std::optional<double> gemm_seconds(GemmPrecision precision, const GemmShape& shape,
                                     const DeviceRates& rates) const;
  /// Operations a second of causal attention forward, counted as 2 x 2 x head_dim x heads x batch x
  /// sequence^2 / 2; nothing where there is no table.
  std::optional<double> attention_rate(const AttentionShape& shape) const;
  /// Seconds of a collective of `devices` on one NVLink over a tensor of `bytes`: the whole of what is
  /// gathered or scattered, one device's buffer of an all-to-all. Nothing where there is no table.
  std::optional<double> collective_seconds(GroupOperation operation, std::int32_t devices,
                                           double bytes) const;

  const ProductTable& products() const { return products_; }
  bool has_gemms(GemmPrecision precision) const { return !gemms_[index_of(precision)].empty(); }

 private:
  static std::size_t index_of(GemmPrecision precision) { return static_cast<std::size_t>(precision); }

  struct AttentionGrid {  // of one head_dim and batch
    double head_dim = 0;
    double batch = 0;
    std::map<std::pair<double, double>, std::map<double, double>>
        rates;  // (heads, kv heads) -> sequence -> rate
  };
  const AttentionGrid* nearest_attention(const AttentionShape& shape) const;

  std::array<LogGrid<3>, kGemmPrecisionCount> gemms_;  // operations a second
  ProductTable products_;
  std::array<std::optional<GemmConstants>, kGemmPrecisionCount> models_;
  std::vector<AttentionGrid> attention_;
  std::array<std::map<std::int32_t, std::map<double, double>>, kGroupOperationCount>
      collectives_;  // s by bytes
};

}  // namespace penstock
