// Schedules with two chunks on a rank, placed as a V: rank r has the stages r and 2K-1-r. zbv-zero-bubble is
// a fixed pattern. zb-v, v-half, v-min and 1f1b-v follow an order by list scheduling
// (search/follow_order.cpp). dual_pipe.cpp has DualPipeV. Tested by picture_test.cpp and
// weighed_costs_test.cpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/search/order_follower.hpp"
#include "schedules/search/synthesis.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

// ZB-V as a fixed pattern (PyTorch's ScheduleZBVZeroBubble; Qi et al. proposed the V placement). The model
// goes down the ranks and comes back up, so rank r has stages c0 = r and c1 = 2K-1-r, and rank 0 computes the
// loss. With 2 ranks and 3 microbatches:
//
//   rank 0   0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0I2 0W2
//   rank 1       1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2
//
// The pattern is made for n = max(M, 2K - 1) microbatches, and actions of microbatches beyond M are left out.
// If F, I and W take equally long and M >= 2K - 1, no rank pauses between its first and last action. A rank
// stores at most 2K activations. This is the memory of 1F1B, whose single chunk is twice as large.

namespace {

/// A builder of one rank's list. The caller appends the next action of a kind on a chunk, and the builder
/// counts the microbatches. An action of a microbatch beyond M is left out.
class PatternList {
 public:
  PatternList(std::int32_t first_stage, std::int32_t second_stage, std::int32_t microbatches)
      : chunks_{{.stage = first_stage}, {.stage = second_stage}}, microbatches_(microbatches) {}

  void add_forward(std::size_t chunk) { add(ActionKind::forward, chunk, chunks_[chunk].forwards++); }
  void add_input(std::size_t chunk) { add(ActionKind::backward_input, chunk, chunks_[chunk].inputs++); }
  void add_weight(std::size_t chunk) { add(ActionKind::backward_weight, chunk, chunks_[chunk].weights++); }
  void add_both(std::size_t chunk) {
    add_input(chunk);
    add_weight(chunk);
  }
  std::int32_t forwards(std::size_t chunk) const { return chunks_[chunk].forwards; }
  void add_weights_until(std::size_t chunk, std::int32_t count) {
    while (chunks_[chunk].weights < count) add_weight(chunk);
  }
  const std::vector<Action>& actions() const { return actions_; }

 private:
  struct Chunk {
    std::int32_t stage = 0;
    std::int32_t forwards = 0;
    std::int32_t inputs = 0;
    std::int32_t weights = 0;
  };

  void add(ActionKind kind, std::size_t chunk, std::int32_t microbatch) {
    if (microbatch < microbatches_) actions_.push_back(compute(kind, chunks_[chunk].stage, microbatch));
  }

  std::vector<Chunk> chunks_;
  std::int32_t microbatches_;
  std::vector<Action> actions_;
};

/// Returns a rank's list. A microbatch goes down the ranks through the chunks 0 and back up through the
/// chunks 1. This is the list of rank 0 of 2, with n = 3:
///
///   0F0 0F1 0F2 | 3F0 3I0 3W0 3F1 3I1 3W1 | 0I0 0W0 3F2 3I2 3W2 | 0I1 0W1 0I2 0W2
///   forwards      first backwards           both chunks           the rest
std::vector<Action> zbv_actions(const Shape& shape, std::int32_t rank) {
  const std::int32_t pattern = std::max(shape.microbatches, 2 * shape.stages - 1);
  const std::int32_t after = shape.stages - rank;
  PatternList list(rank, 2 * shape.stages - 1 - rank, shape.microbatches);
  // These microbatches run chunk 0 on this rank before the first one returns to it from the end of the V.
  for (std::int32_t i = 0; i < 2 * after - 1; ++i) list.add_forward(0);
  for (std::int32_t i = 0; i < rank; ++i) {
    list.add_forward(1);
    list.add_forward(0);
  }
  for (std::int32_t i = 0; i < after; ++i) {
    list.add_forward(1);
    list.add_both(1);
  }
  while (list.forwards(1) < list.forwards(0) || list.forwards(0) < pattern) {
    if (list.forwards(0) < pattern) list.add_forward(0);
    list.add_both(0);
    list.add_forward(1);
    list.add_both(1);
  }
  for (std::int32_t i = 0; i < rank; ++i) {
    list.add_input(0);
    list.add_input(1);
  }
  for (std::int32_t i = 0; i < after; ++i) list.add_both(0);
  list.add_weights_until(1, pattern);
  list.add_weights_until(0, pattern);
  return list.actions();
}

}  // namespace

Generated zbv_zero_bubble(const Shape& shape) {
  Program program = zigzag_program("zbv-zero-bubble", shape);
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    program.ranks[static_cast<std::size_t>(rank)] = zbv_actions(shape, rank);
  }
  append_steps(program);
  insert_recompute(program, shape);
  return program;
}

// ZB-V for measured costs (Qi et al., ICLR'24 and the authors' later V placement): zero bubble on a V with
// two chunks on each rank. It needs the memory of 1F1B, which is 2K of these chunks. Rank r has stages r and
// 2K-1-r, so rank 0 computes the loss. With 2 ranks and 3 microbatches of equal times:
//
//   rank 0   0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 0I1 3W2 0I2 0W1 0W2
//   rank 1       1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 1I1 2I2 1I2 2W1 1W1 2W2 1W2
//
// F and I follow the fixed pattern of zbv_zero_bubble(), which has no pauses if all times are equal. Ws fill
// the gaps that result from the times in shape.costs. Actions change places if that shortens the longest span
// (order_follower.hpp, timed_lists.hpp).
// If shape.memory_limit is too small for this pattern, other orders are tried: the blocks of V-Half and
// V-Min, and one microbatch after the other. The shortest order that fits is used. A search may find a
// shorter order within the same memory limit (synthesis.hpp). Tested by weighed_costs_test.cpp.

namespace {

/// Returns the F and I of the ZB-V list of each rank (zbv_zero_bubble()), which exists for every K and M. Ws
/// are left out, because they are placed later, by their times.
PreferredOrder fixed_pattern(const Shape& shape) {
  PreferredOrder order;
  const Generated pattern = zbv_zero_bubble(shape);
  for (const std::vector<Action>& list : pattern->ranks) {
    order.emplace_back();
    for (const Action& action : list) {
      if (action.kind == ActionKind::forward || action.kind == ActionKind::backward_input)
        order.back().push_back(action);
    }
  }
  return order;
}

PreferredOrder without_weights(const std::vector<std::vector<Action>>& lists) {
  PreferredOrder order = lists;
  for (std::vector<Action>& list : order) {
    std::erase_if(list, [](const Action& action) { return action.kind == ActionKind::backward_weight; });
  }
  return order;
}

}  // namespace

std::vector<OrderChoice> orders_on_a_v(const Shape& shape) {
  std::vector<OrderChoice> choices{{.order = fixed_pattern(shape), .options = options_with_weights()}};
  for (const auto& block : {v_half_block(shape.stages), v_min_block(shape.stages)}) {
    choices.push_back({.order = repeated_block(block, shape.microbatches, ActionKind::backward_input),
                       .options = options_with_weights()});
  }
  choices.push_back(
      {.order = without_weights(one_by_one(zigzag_program("", shape))), .options = {FollowOptions{}}});
  return choices;
}

Generated zb_v(const Shape& shape) {
  Program program = zigzag_program("zb-v", shape);
  const std::int64_t activations = 2 * std::int64_t{shape.stages};
  auto costs = order_costs(shape, program, activations);
  if (!costs) return tl::unexpected(costs.error());
  if (shape.memory_limit.empty()) {
    costs =
        counting_activations(*costs, std::vector<Bytes>(static_cast<std::size_t>(shape.stages), activations));
    // Without a limit, the pattern determines how much memory a rank needs.
    const std::vector<OrderChoice> pattern{
        {.order = fixed_pattern(shape), .options = options_with_weights()}};
    return searched(best_followed(std::move(program), *costs, pattern), *costs, shape);
  }
  const std::vector<OrderChoice> choices = orders_on_a_v(shape);
  const auto known = [&](const OrderCosts& within, Ns longest) {
    std::vector<std::vector<std::vector<Action>>> orders;
    if (auto lists = best_followed(within, choices, longest)) orders.push_back(*std::move(lists));
    return orders;
  };
  return searched(std::move(program), *costs, shape, known);
}

// V-Half (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS'24): a rank stores 2
// (floor(K/2) + 1) of the 2K chunks, about half the activations of 1F1B. The model goes down the ranks and
// back up, so rank r has stages r and 2K-1-r. With 2 ranks and 3 microbatches of equal times:
//
//   rank 0   0F0 0F1 0F2 3F0 3I0 3W0 3F1 0I0 3I1 0W0 3W1 3F2 3I2 0I1 3W2 0I2 0W1 0W2
//   rank 1       1F0 2F0 1F1 2F1 2I0 1I0 2W0 1F2 1W0 2F2 2I1 1I1 2I2 1I2 2W1 1W1 2W2 1W2
//
// The building block says in which slots microbatch 0 runs on rank r. Each later microbatch runs six slots
// later. Ws fill the slots between them (section 3 of the paper; offsets as in the authors' scheduler):
//   F down 2r, F up 3K-2-r, I up 3K-1+d+2r, I down 6K-2+d-r, with d = 3 for even K and 0 for odd K.
// The actions follow the order of these slots and have the times of shape.costs (order_follower.hpp). A
// search may find a shorter order within the same memory limit (synthesis.hpp).

std::vector<BlockSlots> v_half_block(std::int32_t ranks) {
  const std::int64_t k = ranks;
  const std::int64_t d = k % 2 == 0 ? 3 : 0;
  std::vector<BlockSlots> slots;
  slots.reserve(static_cast<std::size_t>(k));
  for (std::int64_t r = 0; r < k; ++r) {
    slots.push_back({.forward_down = 2 * r,
                     .forward_up = 3 * k - 2 - r,
                     .backward_up = 3 * k - 1 + d + 2 * r,
                     .backward_down = 6 * k - 2 + d - r});
  }
  return slots;
}

Generated v_half(const Shape& shape) {
  Program program = zigzag_program("v-half", shape);
  const std::int64_t activations = 2 * (std::int64_t{shape.stages} / 2 + 1);
  auto costs = order_costs(shape, program, activations);
  if (!costs) return tl::unexpected(costs.error());
  const OrderCosts counted =
      counting_activations(*costs, std::vector<Bytes>(static_cast<std::size_t>(shape.stages), activations));
  program = best_followed(
      std::move(program), counted,
      {{.order = repeated_block(v_half_block(shape.stages), shape.microbatches, ActionKind::backward_input),
        .options = options_with_weights()}});
  return searched(std::move(program), counted, shape);
}

// V-Min (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS'24): a rank stores 2
// (floor((K+1)/3) + 1) of the 2K chunks, about a third of the activations of 1F1B. The model goes down the
// ranks and back up, so rank r has stages r and 2K-1-r. With 2 ranks and 3 microbatches of equal times:
//
//   rank 0   0F0 0F1     3F0 3I0 3W0 3F1 0I0 3I1 0W0 0F2 0I1 3W1 3F2 3I2 0W1 3W2 0I2 0W2
//   rank 1       1F0 2F0 1F1 2F1 2I0 1I0 2W0 1W0 2I1 1I1 1F2 2F2 2W1 1W1 2I2 1I2 2W2 1W2
//
// The building block says in which slots microbatch 0 runs on rank r. Each later microbatch runs six slots
// later. Ws fill the slots between them (section 3 of the paper; offsets as in the authors' scheduler):
//   F down r, F up 2K-1-r, I up 2K+d+r, I down 4K+d-1-r, with d = 2 where 3 divides K and 0 elsewhere.
// If K mod 3 = 2, rank 0 needs two activations less than the rank with the highest peak, and its limit is one
// less. The actions follow the order of these slots and have the times of shape.costs (order_follower.hpp). A
// search may find a shorter order within the same memory limit (synthesis.hpp).

std::vector<BlockSlots> v_min_block(std::int32_t ranks) {
  const std::int64_t k = ranks;
  const std::int64_t d = k % 3 == 0 ? 2 : 0;
  std::vector<BlockSlots> slots;
  slots.reserve(static_cast<std::size_t>(k));
  for (std::int64_t r = 0; r < k; ++r) {
    slots.push_back({.forward_down = r,
                     .forward_up = 2 * k - 1 - r,
                     .backward_up = 2 * k + d + r,
                     .backward_down = 4 * k + d - 1 - r});
  }
  return slots;
}

Generated v_min(const Shape& shape) {
  Program program = zigzag_program("v-min", shape);
  const std::int64_t k = shape.stages;
  std::vector<Bytes> activations(static_cast<std::size_t>(k), 2 * ((k + 1) / 3 + 1));
  if (k % 3 == 2) --activations.front();
  auto costs = order_costs(shape, program, activations.back());
  if (!costs) return tl::unexpected(costs.error());
  const OrderCosts counted = counting_activations(*costs, activations);
  program = best_followed(
      std::move(program), counted,
      {{.order = repeated_block(v_min_block(shape.stages), shape.microbatches, ActionKind::backward_input),
        .options = options_with_weights()}});
  return searched(std::move(program), counted, shape);
}

// 1F1B-V (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS'24): 1F1B with whole backwards
// on a V. A rank stores 2 (floor(2K/3) + 1) of the 2K chunks, about two thirds of the activations of 1F1B.
// The model goes down the ranks and back up, so rank r has stages r and 2K-1-r. With 2 ranks and 3
// microbatches, where every action takes one slot:
//   rank 0   0F0 0F1     3F0 3B0 3F1 0F2 3B1 0B0 3F2 3B2 0B1     0B2
//   rank 1       1F0 2F0 1F1 2F1 2B0 1B0 1F2 2F2 2B1 1B1 2B2 1B2
//
// The paper gives the idea but not the offsets, which are derived here. Each microbatch has a block of six
// slots on a rank: two Fs of one slot each and two Bs of two slots each. So no slot is free, and on every
// rank these four actions must fill the six slots, counted modulo 6. Fs go down the ranks in slots r and back
// up in slots 2K-1-r. The distance of the two slots is odd, so the gaps between the two Fs have even length.
// Bs go down the ranks. Each B takes the first free pair of slots that leaves another free pair. Then each B
// except the first and the last moves as late as possible without delaying the next one. Finally the second
// Bs go back up, and each takes the first free pair.
//
// The actions follow these slots with the times of shape.costs and a look-ahead in the warm-up
// (order_follower.hpp).

namespace {

/// The six slots of one rank, numbered modulo 6. Each microbatch uses the slots of the previous microbatch,
/// six slots later.
class SlotRing {
 public:
  void occupy(std::int64_t slot) { taken_[place(slot)] = true; }
  void occupy_pair(std::int64_t slot) {
    occupy(slot);
    occupy(slot + 1);
  }
  bool pair_is_free(std::int64_t slot) const { return !taken_[place(slot)] && !taken_[place(slot + 1)]; }
  bool leaves_a_pair(std::int64_t slot) const {
    SlotRing rest = *this;
    rest.occupy_pair(slot);
    for (std::int64_t other = 0; other < kSlots; ++other) {
      if (rest.pair_is_free(other)) return true;
    }
    return false;
  }
  bool takes_first_pair(std::int64_t slot) const { return pair_is_free(slot) && leaves_a_pair(slot); }

 private:
  static constexpr std::int64_t kSlots = 6;
  static std::size_t place(std::int64_t slot) { return static_cast<std::size_t>(slot % kSlots); }

  std::array<bool, kSlots> taken_{};
};

std::vector<BlockSlots> one_f_one_b_v_block(std::int64_t ranks) {
  std::vector<BlockSlots> slots;
  std::vector<SlotRing> rings(static_cast<std::size_t>(ranks));
  std::int64_t slot = 2 * ranks;
  // The V determines the slots of the Fs. Then the Bs go down the ranks. Each B comes after the previous one,
  // in the first pair of slots that fits.
  for (std::int64_t r = 0; r < ranks; ++r) {
    SlotRing& ring = rings[static_cast<std::size_t>(r)];
    slots.push_back({.forward_down = r, .forward_up = 2 * ranks - 1 - r});
    ring.occupy(r);
    ring.occupy(2 * ranks - 1 - r);
    while (!ring.takes_first_pair(slot)) ++slot;
    slots.back().backward_up = slot;
    slot += 2;
  }
  // From the second-last rank back to rank 1, each B moves as late as the B of the next rank allows.
  for (std::size_t r = slots.size(); r-- > 2;) {
    std::int64_t latest = slots[r].backward_up - 2;
    while (!rings[r - 1].takes_first_pair(latest)) --latest;
    slots[r - 1].backward_up = latest;
  }
  // Only now are the slots of the first Bs final, so the second Bs take the remaining slots.
  for (std::size_t r = slots.size(); r-- > 0;) {
    rings[r].occupy_pair(slots[r].backward_up);
    while (!rings[r].pair_is_free(slot)) ++slot;
    slots[r].backward_down = slot;
    slot += 2;
  }
  return slots;
}

/// Returns the variants that are tried for a schedule with whole backwards. They differ only in the
/// warm-up, because without separate Ws nothing else can be chosen.
std::vector<FollowOptions> options_of(std::int32_t ranks) {
  std::vector<FollowOptions> options;
  for (std::int32_t look_ahead = 0; look_ahead <= std::max(ranks, 4); ++look_ahead) {
    options.push_back({.warm_up_look_ahead = look_ahead});
  }
  return options;
}

}  // namespace

Generated one_f_one_b_v(const Shape& shape) {
  Program program = zigzag_program("1f1b-v", shape);
  const std::int64_t activations = 2 * (2 * std::int64_t{shape.stages} / 3 + 1);
  auto costs = order_costs(shape, program, activations);
  if (!costs) return tl::unexpected(costs.error());
  program = best_followed(
      program,
      counting_activations(*costs, std::vector<Bytes>(static_cast<std::size_t>(shape.stages), activations)),
      {{.order = repeated_block(one_f_one_b_v_block(shape.stages), shape.microbatches, ActionKind::backward),
        .options = options_of(shape.stages)}});
  append_steps(program);
  return program;
}

}  // namespace penstock
