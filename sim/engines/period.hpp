#pragma once
// What a program that is repeated for ever comes to: so many microbatches, again and again, in so long.

#include <cstdint>

#include "schedules/ir/action.hpp"

namespace penstock {

/// `microbatches` (over all replicas) take `period_ns`, again and again, exactly.
struct Period {
  Ns period_ns = 0;
  std::int64_t microbatches = 0;

  friend bool operator==(const Period&, const Period&) = default;
};

/// Samples of the microbatches of one period, per second. Requires a period longer than 0 ns.
constexpr double samples_per_second(const Period& period, double samples_per_microbatch) {
  return static_cast<double>(period.microbatches) * samples_per_microbatch * 1e9 /
         static_cast<double>(period.period_ns);
}

}  // namespace penstock
