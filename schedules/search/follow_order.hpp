#pragma once
// List scheduling that follows a given order of forwards and backwards. All schedules on a V use it
// (v_placement.cpp). Only schedules/ includes this header.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// The preferred order of the F and of the B or I actions (gradient of the input) on each rank.
using PreferredOrder = std::vector<std::vector<Action>>;

/// The time slots in which a rank starts its four actions of microbatch 0, if the stages are placed in a V.
/// The actions are the F of the chunk on the way down, the F of the chunk on the way up, and their backward
/// passes. Each following microbatch starts six slots later.
struct BlockSlots {
  std::int64_t forward_down = 0;
  std::int64_t forward_up = 0;
  std::int64_t backward_up = 0;
  std::int64_t backward_down = 0;
};

/// Returns the building blocks of the schedules V-Half or V-Min (v_placement.cpp), one for each rank.
std::vector<BlockSlots> v_half_block(std::int32_t ranks);
std::vector<BlockSlots> v_min_block(std::int32_t ranks);

/// Returns the order in which a building block is repeated every six slots (Qi et al., "Pipeline
/// Parallelism with Controllable Memory", NeurIPS'24, section 3). `backward` is the kind of all backward
/// passes: B, or I (gradient of the input).
PreferredOrder repeated_block(const std::vector<BlockSlots>& slots, std::int32_t microbatches,
                              ActionKind backward);

/// Options that say how far a rank may deviate from the preferred order.
struct FollowOptions {
  /// The number of further actions that a rank considers if the next action of its order cannot run.
  std::int32_t look_ahead = 0;
  /// The number that replaces `look_ahead` before the rank's first backward pass.
  std::int32_t warm_up_look_ahead = 0;
  /// The shortest pause that a rank fills with a W (gradient of the weights), in quarters of the W's
  /// duration.
  std::int32_t weight_quarters = 4;
  /// True if a W may also run in a shorter pause, if this pause would otherwise become the longest one of
  /// all ranks.
  bool overrun = false;

  friend bool operator==(const FollowOptions&, const FollowOptions&) = default;
};

/// An order, and the options with which it is run.
struct OrderChoice {
  PreferredOrder order;
  std::vector<FollowOptions> options;
};

/// Returns `program` with the lists of the best variant, without STEPs. A variant is an order of `choices`
/// with one of its options. The best one has the smallest value of the longest span of a rank. squeeze()
/// then improves its lists. Requires a program with empty lists. In at least one variant, ranks must not
/// wait for each other forever.
Program best_followed(Program program, const OrderCosts& costs, const std::vector<OrderChoice>& choices);

/// Returns the lists of the best variant, which is an order of `choices` with one of its options. Returns
/// nothing if ranks wait for each other forever in every variant. Also returns nothing if the longest span
/// of a rank is above `longest` in all variants before squeeze().
std::optional<std::vector<std::vector<Action>>> best_followed(const OrderCosts& costs,
                                                              const std::vector<OrderChoice>& choices,
                                                              Ns longest);

/// Returns the options for orders with separate I (gradient of the input) and W (gradient of the weights).
std::vector<FollowOptions> options_with_weights();

}  // namespace penstock
