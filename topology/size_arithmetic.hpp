#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace penstock {

/// A 128-bit integer, for products of two 64-bit sizes and for sums of such products. GCC and Clang have this
/// type. `__extension__` prevents a warning of -Wpedantic.
__extension__ typedef __int128 Wide;

/// Returns `count`, or the largest 64-bit number if `count` is larger.
[[nodiscard]] constexpr std::int64_t saturated(Wide count) {
  return static_cast<std::int64_t>(std::min<Wide>(count, std::numeric_limits<std::int64_t>::max()));
}

/// Returns `count` as a double, for formulas with factors that are not whole numbers.
[[nodiscard]] constexpr double as_double(std::int64_t count) { return static_cast<double>(count); }

/// Factors between seconds and smaller units of time. Times are whole nanoseconds (Ns), but formulas for
/// costs use seconds.
inline constexpr double kSecondsPerNanosecond = 1e-9;
inline constexpr double kSecondsPerMicrosecond = 1e-6;
inline constexpr double kNanosecondsPerSecond = 1e9;
inline constexpr double kMicrosecondsPerSecond = 1e6;

inline constexpr double kBytesPerGibibyte = 1024.0 * 1024 * 1024;

}  // namespace penstock
