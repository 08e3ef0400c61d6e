#pragma once
// How far 1F1B-RR runs ahead (PipeDream, SOSP'19, section 3.2): the rule that its generator, its peak of live
// activations and those who plan for it share.

#include <cstdint>

namespace penstock {

/// Forwards that each replica of a stage runs before its first backward: as many as keep it busy until its
/// first minibatch comes back. `workers` are the replicas of the stage and of all behind it, `replicas` the
/// stage's own. One more are in flight; of the first stage those are the paper's NOAM.
///   replicas 4 1 2: (7 - 1) / 4 = 1, (3 - 1) / 1 = 2, (2 - 1) / 2 = 0
/// Requires workers >= replicas >= 1.
constexpr std::int32_t round_robin_warmup(std::int32_t workers, std::int32_t replicas) {
  return (workers - 1) / replicas;
}

}  // namespace penstock
