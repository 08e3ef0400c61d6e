// Follows a preferred order in several variants (FollowOptions) and chooses one. The span of a rank is the
// time from its first start to its last end. The file runs the variants and takes the one in which the
// longest span of a rank is smallest. If several are equal, it takes the first. No longest span is shorter
// than the work of the busiest rank. A variant with this span ends the search at once.
//
//   slots of a block   ->  PreferredOrder  ->  OrderFollower, each variant  ->  the best lists  ->  squeeze()
//   F down 0, F up 3       0F0 0F1 3F0 ..      looks ahead, places W
//
// Tested by search_test.cpp.
#include "schedules/search/order_follower.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
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
    // In a V, rank r has the stages r and 2 K - 1 - r.
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

// Connects the actions of an order with their inputs. The output of an F is the input of the F of the next
// stage. On the last stage, it is the input of the backward. The output of a backward is the input of the
// backward of the previous stage:
//
//   0F > 1F > 2F
//              v        the last stage's B or I needs only its own F
//   0B < 1B < 2B        on other stages the F is finished long before the gradient arrives
//
// Tested by search_test.cpp.

namespace {

/// Returns the track of a stage's F actions. A track is all actions of one kind on one stage. F allocates
/// all memory that a microbatch needs on the stage.
Track forward_track(const OrderCosts& costs, std::int32_t stage) {
  const StageCost& cost = costs.stages[index(stage)];
  return {.stage = stage,
          .rank = costs.rank_of[index(stage)],
          .duration = duration_ns(cost, ActionKind::forward),
          .charged = cost.kept};
}

/// Returns the track of a stage's backwards: all its actions of `kind`, which is B or I. B releases all
/// memory that F allocated. I (gradient of the input) releases a part, and its W releases the rest.
Track backward_track(const OrderCosts& costs, std::int32_t stage, ActionKind kind) {
  const StageCost& cost = costs.stages[index(stage)];
  const bool splits = kind == ActionKind::backward_input;
  return {.kind = kind,
          .stage = stage,
          .rank = costs.rank_of[index(stage)],
          .duration = duration_ns(cost, kind),
          .weight_ns = splits ? duration_ns(cost, ActionKind::backward_weight) : 0,
          .released = released_activations(cost, kind),
          .owed = splits ? released_activations(cost, ActionKind::backward_weight) : 0};
}

/// Returns the kind of backward, B or I, of each stage. All backwards of a stage have the same kind, so the
/// function may look at any of them.
std::vector<ActionKind> backward_kinds(const PreferredOrder& order, std::size_t stages) {
  std::vector<ActionKind> kinds(stages, ActionKind::backward);
  for (const std::vector<Action>& list : order) {
    for (const Action& action : list) {
      if (action.kind != ActionKind::forward) kinds[index(action.stage)] = action.kind;
    }
  }
  return kinds;
}

}  // namespace

OrderSteps::OrderSteps(const OrderCosts& costs, const PreferredOrder& order)
    : microbatches(costs.microbatches), busy_ns(order.size(), 0), limits(costs.memory_limit) {
  const auto stages = static_cast<std::int32_t>(costs.stages.size());
  const std::vector<ActionKind> kinds = backward_kinds(order, costs.stages.size());
  for (std::int32_t stage = 0; stage < stages; ++stage) tracks.push_back(forward_track(costs, stage));
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    tracks.push_back(backward_track(costs, stage, kinds[index(stage)]));
  }
  // Edge e connects the stages e and e + 1. It takes equally long in both directions.
  const auto give = [&](std::int32_t giver, std::int32_t taker, std::int32_t edge) {
    Track& from = tracks[index(giver)];
    from.next = taker;
    from.next_rank = tracks[index(taker)].rank;
    from.delay = from.rank == from.next_rank ? 0 : costs.transfer_ns[index(edge)];
  };
  for (std::int32_t stage = 0; stage + 1 < stages; ++stage) {
    give(stage, stage + 1, stage);
    give(stages + stage + 1, stages + stage, stage);
  }
  // The forward pass of the last stage is followed by its backward pass on the same rank, so no transfer time
  // is read. The edge number is therefore never used. There is no edge after the last stage.
  give(stages - 1, 2 * stages - 1, stages - 1);
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    std::vector<Step>& steps = ranks.emplace_back();
    steps.reserve(order[rank].size());
    for (const Action& action : order[rank]) {
      const std::int32_t number = action.stage + (action.kind == ActionKind::forward ? 0 : stages);
      steps.push_back({.track = number, .place = number * microbatches + action.microbatch});
      // Ws are not part of the order, because they fill gaps. But they are part of a rank's work.
      busy_ns[rank] += tracks[index(number)].duration + tracks[index(number)].weight_ns;
    }
  }
}

OrderTails::OrderTails(const OrderSteps& order, std::vector<Ns> first_starts)
    : first_starts_(std::move(first_starts)), tails_(order.place_count(), kEndless) {
  // Number of steps on each rank whose tail (the time from the step to the end) is not computed yet.
  std::vector<std::size_t> left;
  std::vector<Ns> behind;  // tail of the step that was computed last on each rank
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    left.push_back(order.ranks[rank].size());
    behind.push_back(-first_starts_[rank]);
  }
  // Goes backwards on each rank as long as the tails of the actions that use the rank's outputs are known. If
  // no rank can continue, the remaining steps wait for each other, and their tails stay kEndless.
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < left.size(); ++rank) {
      for (; left[rank] > 0; --left[rank]) {
        const Step& step = order.ranks[rank][left[rank] - 1];
        const Track& track = order.track_of(step);
        if (track.next != Track::kNone) {
          const Ns taken = after(order.taker(step));
          if (taken == kEndless) break;
          behind[rank] = std::max(behind[rank], track.delay + taken);
        }
        behind[rank] += track.duration;
        tails_[index(step.place)] = behind[rank];
        moved = true;
      }
    }
  }
}

}  // namespace penstock
