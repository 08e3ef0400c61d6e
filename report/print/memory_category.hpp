#pragma once
// The categories of memory in predictions, measurements and charts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// A reason for which a device holds bytes.
enum class MemoryCategory : std::uint8_t {
  weights,
  // older versions that a later B still needs
  weight_versions,
  gradients,
  optimizer_state,
  activations,
  send_buffers,
  receive_buffers,
  transient,
};
/// The keys in JSON and the columns in tables.
template <>
inline constexpr auto kEnumWords<MemoryCategory> =
    std::to_array<EnumWord<MemoryCategory>>({{MemoryCategory::weights, "weights"},
                                             {MemoryCategory::weight_versions, "weight_versions"},
                                             {MemoryCategory::gradients, "gradients"},
                                             {MemoryCategory::optimizer_state, "optimizer_state"},
                                             {MemoryCategory::activations, "activations"},
                                             {MemoryCategory::send_buffers, "send_buffers"},
                                             {MemoryCategory::receive_buffers, "receive_buffers"},
                                             {MemoryCategory::transient, "transient"}});
inline constexpr std::size_t kMemoryCategoryCount = kEnumWords<MemoryCategory>.size();

/// Bytes held, by MemoryCategory.
using MemoryByCategory = std::array<Bytes, kMemoryCategoryCount>;
/// Returns the sum over the categories. The peak of a rank is the largest sum over time, which may be less
/// than the sum of the categories' own peaks.
Bytes total_bytes(const MemoryByCategory& memory);

}  // namespace penstock
