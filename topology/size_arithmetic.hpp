#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace penstock {

/// 128 bits: products of two 64-bit sizes, sums of them over a model, before they are rounded or judged. Both
/// compilers in use have it, and -Wpedantic wants to be told.
__extension__ typedef __int128 Wide;

/// `count`, or the largest 64-bit number where it is more.
[[nodiscard]] constexpr std::int64_t saturated(Wide count) {
  return static_cast<std::int64_t>(std::min<Wide>(count, std::numeric_limits<std::int64_t>::max()));
}

/// For formulas whose factors are no whole numbers.
[[nodiscard]] constexpr double as_double(std::int64_t count) { return static_cast<double>(count); }

}  // namespace penstock
