// Follows a preferred order in several variants (FollowOptions) and chooses one. The span of a rank is the
// time from its first start to its last end. The file runs the variants and takes the one in which the
// longest span of a rank is smallest. If several are equal, it takes the first. No longest span is shorter
// than the work of the busiest rank. A variant with this span ends the search at once.
//
//   slots of a block   ->  PreferredOrder  ->  OrderFollower, each variant  ->  the best lists  ->  squeeze()
//   F down 0, F up 3       0F0 0F1 3F0 ..      looks ahead, places W
//
// Tested by search_test.cpp.

#include "schedules/search/follow_order.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/search/order_follower.hpp"
#include "schedules/search/retimed_lists.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

/// The next action of one kind and stage, and the slot in which it starts.
struct Stream {
  std::int64_t slot = 0;
  Action action;
};

}  // namespace

/// Returns an order for each rank. A rank has two chunks and four streams of actions: F of each chunk, and
/// B or I of each chunk. The function merges the streams by time slot. An action of microbatch m has the
/// slot of microbatch 0 plus 6 m. A finished stream gets a slot after all others. If slots are equal, the
/// earlier stream in the array comes first.
PreferredOrder repeated_block(const std::vector<BlockSlots>& slots, std::int32_t microbatches,
                              ActionKind backward) {
  constexpr std::int64_t kPeriod = 6;  // F, I and W of two chunks take one slot each
  const auto ranks = static_cast<std::int32_t>(slots.size());
  PreferredOrder order(slots.size());
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    const BlockSlots& block = slots[index(rank)];
    const std::int32_t down = rank;
    // On a V, rank r has the stages r and 2 K - 1 - r.
    const std::int32_t up = 2 * ranks - 1 - rank;
    std::array<Stream, 4> streams{{{block.forward_down, forward(down, 0)},
                                   {block.forward_up, forward(up, 0)},
                                   {block.backward_up, compute(backward, up, 0)},
                                   {block.backward_down, compute(backward, down, 0)}}};
    order[index(rank)].reserve(streams.size() * index(microbatches));
    for (std::size_t count = streams.size() * index(microbatches); count > 0; --count) {
      Stream& first = *std::ranges::min_element(streams, {}, &Stream::slot);
      order[index(rank)].push_back(first.action);
      first.slot += kPeriod;
      if (++first.action.microbatch == microbatches) first.slot = std::numeric_limits<std::int64_t>::max();
    }
  }
  return order;
}

std::optional<std::vector<std::vector<Action>>> best_followed(const OrderCosts& costs,
                                                              const std::vector<OrderChoice>& choices,
                                                              Ns longest) {
  std::optional<std::vector<std::vector<Action>>> lists;
  Ns best = longest + 1;
  for (const OrderChoice& choice : choices) {
    OrderFollower follower(costs, choice.order);
    // One run gives the result of every variant that would have made the same decisions. So only the other
    // variants need further runs. A variant must be shorter than the best one so far. If several are equal,
    // the first of them is therefore taken.
    for (std::vector<FollowOptions> variants = choice.options; !variants.empty();
         variants = follower.other_variants()) {
      const auto span = follower.run(variants, best);
      if (!span) continue;
      best = *span;
      lists = follower.lists();
      // Neither another variant nor squeeze() can make the longest span shorter.
      if (best == follower.busiest_ns()) return lists;
    }
  }
  if (lists) lists = squeeze(*lists, costs);
  return lists;
}

Program best_followed(Program program, const OrderCosts& costs, const std::vector<OrderChoice>& choices) {
  program.ranks = best_followed(costs, choices, std::numeric_limits<Ns>::max() - 1).value();
  return program;
}

std::vector<FollowOptions> options_with_weights() {
  // There are 32 variants, but other_variants() leaves out most of them. In a variant with 0 quarters, a W
  // runs in any gap. In the others, a W runs only in a gap of at least half, three quarters or all of its
  // duration.
  std::vector<FollowOptions> options;
  for (std::int32_t look_ahead = 0; look_ahead <= 3; ++look_ahead) {
    for (const std::int32_t quarters : {0, 2, 3, 4}) {
      for (const bool overrun : {false, true}) {
        options.push_back({.look_ahead = look_ahead,
                           .warm_up_look_ahead = look_ahead,
                           .weight_quarters = quarters,
                           .overrun = overrun});
      }
    }
  }
  return options;
}

}  // namespace penstock
