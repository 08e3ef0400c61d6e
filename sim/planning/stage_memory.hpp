#pragma once
// The simulated memory of one training step of which only the states matter. Published tables of the "largest
// model that fits" are recomputed with it. Used only by the reproductions.

#include <cstdint>

#include "schedules/ir/action.hpp"

namespace penstock {

/// The bytes of one stage with one microbatch at a time.
struct StageState {
  Bytes weights = 0;
  Bytes gradients = 0;
  Bytes optimizer_state = 0;
  Bytes activations = 0;
};

/// Returns the peak of a device that holds the whole stage.
Bytes peak_of_one_stage(const StageState& state);

/// A model that `devices` share. `sharding` is the stage of ZeRO, from 0 (nothing is sharded) to 3. The step
/// processes the model bucket by bucket.
struct ShardedModel {
  StageState state;
  std::int32_t devices = 1;
  std::int32_t buckets = 1;
  std::int32_t sharding = 0;
};

/// Returns the peak of each device.
Bytes peak_of(const ShardedModel& model);
/// Returns the bytes that each device sends in one step.
Bytes sent_bytes(const ShardedModel& model);

}  // namespace penstock
