#pragma once
// The warm-up of 1F1B-RR (PipeDream, SOSP'19, section 3.2). The generator, its bound on live activations and
// the planners share this formula.

#include <cstdint>

namespace penstock {

/// Returns the number of forwards that each replica of a stage runs before its first backward. With so many
/// forwards it is busy until its first minibatch returns. `workers` is the number of replicas of this stage
/// and all later stages. `replicas` is the number for this stage. The result plus 1 minibatches are in
/// flight. For the first stage, this is the paper's NOAM.
///   replicas 4 1 2: (7 - 1) / 4 = 1, (3 - 1) / 1 = 2, (2 - 1) / 2 = 0
/// Requires workers >= replicas >= 1.
constexpr std::int32_t round_robin_warmup(std::int32_t workers, std::int32_t replicas) {
  return (workers - 1) / replicas;
}

}  // namespace penstock
