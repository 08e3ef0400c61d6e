#pragma once
// The categories of memory, such as weights or activations. Predictions, measurements and charts all use
// these categories.

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>

#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// A purpose for which a device stores bytes.
enum class MemoryCategory : std::uint8_t {
  weights,
  // older versions of the weights that a later backward pass still needs
  weight_versions,
  gradients,
  optimizer_state,
  activations,
  send_buffers,
  receive_buffers,
  transient,
};
/// The words for the categories in JSON keys and in table columns.
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

/// The bytes of each memory category, indexed by MemoryCategory.
using MemoryByCategory = std::array<Bytes, kMemoryCategoryCount>;
/// Returns the sum over the categories. It must not be used for the peaks of the categories, because these
/// may occur at different times.
inline Bytes total_bytes(const MemoryByCategory& memory) {
  return std::accumulate(memory.begin(), memory.end(), Bytes{0});
}

}  // namespace penstock
