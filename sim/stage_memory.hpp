#pragma once
// The simulated memory of one training step where only its states count: what tables of "largest model that
// fits" are made of. Private to the reproductions.

#include <cstdint>

#include "schedules/action.hpp"

namespace penstock {

/// Bytes of one stage for the one microbatch that it has at a time.
struct StageState {
  Bytes weights = 0;
  Bytes gradients = 0;
  Bytes optimizer_state = 0;
  Bytes activations = 0;
};

/// The peak of a device that holds the stage whole.
Bytes peak_of_one_stage(const StageState& state);

/// The peak of each of `replicas` devices that hold the stage together and shard it as that stage of ZeRO
/// (0: not at all, to 3).
Bytes peak_of_sharded_stage(const StageState& state, std::int32_t replicas, std::int32_t sharding);

}  // namespace penstock
