#pragma once
// Why bytes are held: the categories of every memory account, whether predicted, measured or drawn.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "schedules/ir/action.hpp"

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
inline constexpr std::size_t kMemoryCategoryCount = 8;
/// "weights", "weight_versions", ...: the key in JSON and the column in tables.
std::string_view to_text(MemoryCategory category);

/// Bytes held, indexed by MemoryCategory.
using MemoryByCategory = std::array<Bytes, kMemoryCategoryCount>;
Bytes total_bytes(const MemoryByCategory& memory);

}  // namespace penstock
