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
  microbatch,  // either pass of a microbatch gathers weights (3), and its backward pass scatters gradients
  step,        // a step gathers weights once (3), and gradients are whole until its last microbatch
};
template <>
inline constexpr auto kEnumWords<Gather> =
    std::to_array<EnumWord<Gather>>({{Gather::step, "step"}, {Gather::microbatch, "microbatch"}});

}  // namespace penstock
