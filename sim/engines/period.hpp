#pragma once
// The rate of a program that is repeated for ever: a number of microbatches in a number of nanoseconds.

#include <cstdint>

#include "schedules/ir/action.hpp"

namespace penstock {

/// The period of a program: `microbatches`, over all replicas, take exactly `period_ns`, again and again.
struct Period {
  Ns period_ns = 0;
  std::int64_t microbatches = 0;

  friend bool operator==(const Period&, const Period&) = default;
};

/// Returns the samples per second. Requires a period longer than 0 ns.
constexpr double samples_per_second(const Period& period, double samples_per_microbatch) {
  return static_cast<double>(period.microbatches) * samples_per_microbatch * 1e9 /
         static_cast<double>(period.period_ns);
}

}  // namespace penstock
