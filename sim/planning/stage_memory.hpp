#pragma once
// The simulated memory of one training step where only its states count: what tables of "largest model that
// fits" are made of. Private to the reproductions.

#include <cstdint>

#include "schedules/ir/action.hpp"

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

/// `devices` that hold the model together and shard it as that stage of ZeRO (0: not at all, to 3), which
/// goes through it bucket by bucket.
struct ShardedModel {
  StageState state;
  std::int32_t devices = 1;
  std::int32_t buckets = 1;
  std::int32_t sharding = 0;
};

/// The peak of each device.
Bytes peak_of(const ShardedModel& model);
/// Bytes that each device sends in one step.
Bytes sent_bytes(const ShardedModel& model);

}  // namespace penstock
