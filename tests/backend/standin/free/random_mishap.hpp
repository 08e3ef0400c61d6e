#pragma once
// Mishaps at random calls of random ranks, for tests with many runs.

#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>

#include <fmt/format.h>

#include "tests/backend/standin/free/calls.hpp"

namespace penstock {

/// The deadlines of runs. A run must wait for its deadline only if a rank is stopped.
inline constexpr std::chrono::milliseconds kLong(30'000);
inline constexpr std::chrono::milliseconds kShort(1'000);
inline std::chrono::milliseconds deadline_with(const standin::Mishap& mishap) {
  return mishap.kind == standin::Mishap::Kind::stopped ? kShort : kLong;
}

inline standin::Mishap random_mishap(std::mt19937& random, std::int32_t ranks) {
  constexpr unsigned kMostCalls = 400;  // the approximate number of calls of a rank
  using Kind = standin::Mishap::Kind;
  const Kind kind = std::array{Kind::killed, Kind::stopped, Kind::fails}[random() % 3];
  const int device = static_cast<int>(random() % static_cast<unsigned>(ranks));
  return {.kind = kind, .device = device, .call = "", .nth = static_cast<int>(1 + random() % kMostCalls)};
}

inline std::string to_text(const standin::Mishap& mishap) {
  return fmt::format("kind {} befalls rank {} at call {}", static_cast<int>(mishap.kind), mishap.device,
                     mishap.nth);
}

}  // namespace penstock
