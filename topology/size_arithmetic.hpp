#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace penstock {

/// An integer of 128 bits, for products of two 64-bit sizes and for sums of such products before they are
/// rounded or compared. GCC and Clang have it; `__extension__` silences -Wpedantic.
__extension__ typedef __int128 Wide;

/// Returns `count`, or the largest 64-bit number if `count` exceeds it.
[[nodiscard]] constexpr std::int64_t saturated(Wide count) {
  return static_cast<std::int64_t>(std::min<Wide>(count, std::numeric_limits<std::int64_t>::max()));
}

/// Returns a count as a factor for formulas whose other factors are not whole numbers.
[[nodiscard]] constexpr double as_double(std::int64_t count) { return static_cast<double>(count); }

}  // namespace penstock
