#pragma once
// Defines how often the ranks that hold the same sharded stage exchange its parts.

#include <array>
#include <cstdint>
#include <string_view>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The frequency of the exchanges under sharding 2 and 3. Under sharding 0 and 1, the ranks exchange data
/// only once per step.
enum class Gather : std::uint8_t {
  microbatch,  // each pass of a microbatch gathers weights (sharding 3); each backward reduces gradients
  step,        // a step gathers weights once (sharding 3), and its last microbatch reduces gradients
};
template <>
inline constexpr auto kEnumWords<Gather> =
    std::to_array<EnumWord<Gather>>({{Gather::step, "step"}, {Gather::microbatch, "microbatch"}});

}  // namespace penstock
