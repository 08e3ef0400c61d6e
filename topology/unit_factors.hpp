#pragma once

namespace penstock {

/// Factors between units. Times are whole nanoseconds (Ns), but formulas for costs use seconds.
inline constexpr double kSecondsPerNanosecond = 1e-9;
inline constexpr double kSecondsPerMicrosecond = 1e-6;
inline constexpr double kNanosecondsPerSecond = 1e9;
inline constexpr double kMicrosecondsPerSecond = 1e6;

inline constexpr double kBytesPerGibibyte = 1024.0 * 1024 * 1024;

}  // namespace penstock
