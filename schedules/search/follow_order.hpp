#pragma once
// List scheduling along a given order of forwards and backwards: what the schedules on a V share (v_half.cpp,
// v_min.cpp, one_f_one_b_v.cpp, zb_v.cpp). Private to schedules/.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// The F and the B or I of every rank, in the order in which they are preferred.
using PreferredOrder = std::vector<std::vector<Action>>;

/// Slots, six a microbatch, in which a rank starts its four actions of microbatch 0 on a V: the F of the
/// chunk on the way down and of the one on the way up, then their backwards.
struct BlockSlots {
  std::int64_t forward_down = 0;
  std::int64_t forward_up = 0;
  std::int64_t backward_up = 0;
  std::int64_t backward_down = 0;
};

/// The blocks of V-Half and V-Min (v_half.cpp, v_min.cpp), by rank.
std::vector<BlockSlots> v_half_block(std::int32_t ranks);
std::vector<BlockSlots> v_min_block(std::int32_t ranks);

/// The order of a building block that repeats every six slots (Qi et al., "Pipeline Parallelism with
/// Controllable Memory", NeurIPS'24, section 3). `backward` is B or I.
PreferredOrder repeated_block(const std::vector<BlockSlots>& slots, std::int32_t microbatches,
                              ActionKind backward);

/// How far the times may bend an order.
struct FollowOptions {
  std::int32_t look_ahead = 0;          ///< actions behind a rank's next one that may go before it
  std::int32_t warm_up_look_ahead = 0;  ///< the same before the rank's first backward
  std::int32_t weight_quarters = 4;     ///< a W runs in a gap that holds so many quarters of it
  bool overrun = false;                 ///< or where the rank would have paused longest otherwise

  friend bool operator==(const FollowOptions&, const FollowOptions&) = default;
};

/// An order and the ways to follow it.
struct OrderChoice {
  PreferredOrder order;
  std::vector<FollowOptions> options;
};

/// `program`, which has empty lists, with the lists of the choice whose longest span is shortest, squeezed
/// (squeeze.hpp), without STEPs. Requires one choice that does not jam.
Program best_followed(Program program, const OrderCosts& costs, const std::vector<OrderChoice>& choices);

/// Makes the lists of best_followed(). Returns nothing if each choice jams or, before it is squeezed, is
/// longer than `longest`.
std::optional<std::vector<std::vector<Action>>> best_followed(const OrderCosts& costs,
                                                              const std::vector<OrderChoice>& choices,
                                                              Ns longest);

/// The grid that suits orders with I and W.
std::vector<FollowOptions> options_with_weights();

}  // namespace penstock
