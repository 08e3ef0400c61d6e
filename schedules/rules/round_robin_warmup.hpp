#pragma once
// The warm-up of 1F1B-RR (PipeDream, SOSP'19, section 3.2). The generator, its peak of live activations and
// planners share this rule.

#include <cstdint>

namespace penstock {

/// Returns how many forwards each replica of a stage runs before its first backward, so that it is busy until
/// its first minibatch comes back. `workers` are the replicas of the stage and of all later stages,
/// `replicas` the stage's own. One more minibatch is in flight; for the first stage that number is the
/// paper's NOAM.
///   replicas 4 1 2: (7 - 1) / 4 = 1, (3 - 1) / 1 = 2, (2 - 1) / 2 = 0
/// Requires workers >= replicas >= 1.
constexpr std::int32_t round_robin_warmup(std::int32_t workers, std::int32_t replicas) {
  return (workers - 1) / replicas;
}

}  // namespace penstock
