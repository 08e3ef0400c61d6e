#pragma once
// Why bytes are held: the categories of every memory account, whether predicted, measured or drawn.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// Why bytes are held on a device.
enum class MemoryCategory : std::uint8_t {
  weights,
  weight_versions,  // older versions that some later B still needs
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

/// Bytes held, indexed by MemoryCategory.
using MemoryByCategory = std::array<Bytes, kMemoryCategoryCount>;
Bytes total_bytes(const MemoryByCategory& memory);

}  // namespace penstock
