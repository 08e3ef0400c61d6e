#pragma once
// Deadlines of tests in which a thread or a process is at fault. They are in wall time, because threads that
// hang, processes that are stopped, and their supervisors have no other time. They are so long that even a
// machine with ten other busy processes keeps them.

#include <chrono>

namespace penstock {

/// A deadline that only the thread or process at fault exceeds.
inline constexpr std::chrono::seconds kKept(2);
/// A deadline that no test reaches.
inline constexpr std::chrono::seconds kLong(120);
/// The longest time until a run ends that ends at once or after kKept.
inline constexpr std::chrono::seconds kSoon(60);

}  // namespace penstock
