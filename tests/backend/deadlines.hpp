#pragma once
// Deadlines of tests in which somebody is at fault. They are wall time: threads that are stuck, processes
// that are stopped, and those that watch them, know no other. So they are such that a machine which is busy
// with ten other processes keeps them.

#include <chrono>

namespace penstock {

/// A deadline of whoever is at fault, and which all others keep.
inline constexpr std::chrono::seconds kKept(2);
/// A deadline that is not to matter.
inline constexpr std::chrono::seconds kLong(120);
/// How long an end takes at most that comes at once, or with kKept.
inline constexpr std::chrono::seconds kSoon(60);

}  // namespace penstock
