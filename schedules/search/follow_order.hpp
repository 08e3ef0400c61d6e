#pragma once
// List scheduling along a given order of forwards and backwards, which the schedules on a V share
// (v_half.cpp, v_min.cpp, one_f_one_b_v.cpp, zb_v.cpp). Only schedules/ includes this header.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// The F and the B or I of each rank, in the preferred order.
using PreferredOrder = std::vector<std::vector<Action>>;

/// The slots in which a rank starts its four actions of microbatch 0 on a V, where six slots are one
/// microbatch. They are the F of the chunk on the way down, the F of the chunk on the way up, and their
/// backwards.
struct BlockSlots {
  std::int64_t forward_down = 0;
  std::int64_t forward_up = 0;
  std::int64_t backward_up = 0;
  std::int64_t backward_down = 0;
};

/// Return the blocks of V-Half and V-Min (v_half.cpp, v_min.cpp), by rank.
std::vector<BlockSlots> v_half_block(std::int32_t ranks);
std::vector<BlockSlots> v_min_block(std::int32_t ranks);

/// Returns the order of a building block that is repeated every six slots (Qi et al., "Pipeline Parallelism
/// with Controllable Memory", NeurIPS'24, section 3). `backward` is B or I.
PreferredOrder repeated_block(const std::vector<BlockSlots>& slots, std::int32_t microbatches,
                              ActionKind backward);

/// A variant of following an order: how far a rank may deviate from it.
struct FollowOptions {
  /// The number of actions after a rank's next one that may go before it.
  std::int32_t look_ahead = 0;
  /// The value of look_ahead that holds before the rank's first backward.
  std::int32_t warm_up_look_ahead = 0;
  /// The quarters of its duration that a gap must have so that a W runs in it.
  std::int32_t weight_quarters = 4;
  /// True if a W also runs in a gap that would otherwise become the longest pause of all ranks.
  bool overrun = false;

  friend bool operator==(const FollowOptions&, const FollowOptions&) = default;
};

/// An order and the variants in which it is followed.
struct OrderChoice {
  PreferredOrder order;
  std::vector<FollowOptions> options;
};

/// Returns `program` with the lists of the variant whose longest span is shortest, after squeeze(), without
/// STEPs. Requires a program with empty lists and a choice in which ranks do not wait for each other forever.
Program best_followed(Program program, const OrderCosts& costs, const std::vector<OrderChoice>& choices);

/// Returns the lists of best_followed(). Returns nothing if in each variant ranks wait for each other
/// forever, or if all lists are longer than `longest` before squeeze().
std::optional<std::vector<std::vector<Action>>> best_followed(const OrderCosts& costs,
                                                              const std::vector<OrderChoice>& choices,
                                                              Ns longest);

/// Returns the variants that suit orders with I and W.
std::vector<FollowOptions> options_with_weights();

}  // namespace penstock
