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

/// The F and the B or I actions of each rank, in the preferred order.
using PreferredOrder = std::vector<std::vector<Action>>;

/// The start slots of a rank's four actions of microbatch 0 on a V. The actions are the F of the chunk on the
/// way down, the F of the chunk on the way up, and their backwards. The slots of each following microbatch
/// are six slots later.
struct BlockSlots {
  std::int64_t forward_down = 0;
  std::int64_t forward_up = 0;
  std::int64_t backward_up = 0;
  std::int64_t backward_down = 0;
};

/// Returns the blocks of V-Half or V-Min (v_placement.cpp), by rank.
std::vector<BlockSlots> v_half_block(std::int32_t ranks);
std::vector<BlockSlots> v_min_block(std::int32_t ranks);

/// Returns the order in which a building block is repeated every six slots (Qi et al., "Pipeline Parallelism
/// with Controllable Memory", NeurIPS'24, section 3). `backward` is B or I.
PreferredOrder repeated_block(const std::vector<BlockSlots>& slots, std::int32_t microbatches,
                              ActionKind backward);

/// Options that say how far a rank may deviate from the preferred order.
struct FollowOptions {
  /// The number of later actions that a rank considers if its next action cannot run.
  std::int32_t look_ahead = 0;
  /// The value of look_ahead before the rank's first backward.
  std::int32_t warm_up_look_ahead = 0;
  /// The shortest gap in which a W runs, in quarters of the W's duration.
  std::int32_t weight_quarters = 4;
  /// True if a W may also run in a shorter gap that would otherwise become the longest pause of all ranks.
  bool overrun = false;

  friend bool operator==(const FollowOptions&, const FollowOptions&) = default;
};

/// An order, and the options with which it is run.
struct OrderChoice {
  PreferredOrder order;
  std::vector<FollowOptions> options;
};

/// Returns `program` with the lists of the best variant, without STEPs. The best variant is the one in which
/// the longest span of a rank is smallest. squeeze() then improves its lists. Requires a program with empty
/// lists, and at least one choice in which ranks do not wait for each other forever.
Program best_followed(Program program, const OrderCosts& costs, const std::vector<OrderChoice>& choices);

/// Returns the lists of the best variant. Returns nothing if ranks wait for each other forever in every
/// variant. Also returns nothing if all variants have a longest span above `longest` before squeeze().
std::optional<std::vector<std::vector<Action>>> best_followed(const OrderCosts& costs,
                                                              const std::vector<OrderChoice>& choices,
                                                              Ns longest);

/// Returns the options for orders with I and W.
std::vector<FollowOptions> options_with_weights();

}  // namespace penstock
