// 1F1B-V (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS'24): 1F1B with whole backwards
// on a V. A rank stores 2 (floor(2K/3) + 1) of the 2K chunks, about two thirds of the activations of 1F1B.
// The model goes down the ranks and back up, so rank r has stages r and 2K-1-r. With 2 ranks and 3
// microbatches, where every action takes one slot:
//   rank 0   0F0 0F1     3F0 3B0 3F1 0F2 3B1 0B0 3F2 3B2 0B1     0B2
//   rank 1       1F0 2F0 1F1 2F1 2B0 1B0 1F2 2F2 2B1 1B1 2B2 1B2
//
// The paper gives the idea but not the offsets, which are derived here. A block of six slots for each
// microbatch holds two Fs of one slot and two Bs of two slots, so no slot is free. On every rank these four
// actions must fill the six slots, counted modulo 6. Fs go down the ranks in slots r and back up in slots
// 2K-1-r. Their distance is odd, so the gaps between them have even length. Bs go down the ranks. Each B
// takes the first free pair of slots that leaves another free pair. Then each B except the first moves as
// late as possible without delaying the next one. Finally the second Bs go back up, and each takes the first
// free pair.
//
// The block runs with the times of shape.costs, with a look-ahead in the warm-up (follow_order.hpp).

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/search/follow_order.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

/// The six slots of one rank, counted modulo 6. Each microbatch uses the same slots, six slots later than the
/// previous one.
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
  // Each F takes the slot that the V determines. Then the Bs go down the ranks. Each B comes after the
  // previous one, in the first pair that fits.
  for (std::int64_t r = 0; r < ranks; ++r) {
    SlotRing& ring = rings[static_cast<std::size_t>(r)];
    slots.push_back({.forward_down = r, .forward_up = 2 * ranks - 1 - r});
    ring.occupy(r);
    ring.occupy(2 * ranks - 1 - r);
    while (!ring.takes_first_pair(slot)) ++slot;
    slots.back().backward_up = slot;
    slot += 2;
  }
  // From the last rank to the second, each B moves as late as the next B allows.
  for (std::size_t r = slots.size(); r-- > 2;) {
    std::int64_t latest = slots[r].backward_up - 2;
    while (!rings[r - 1].takes_first_pair(latest)) --latest;
    slots[r - 1].backward_up = latest;
  }
  // The first pairs are final only now, so the second pairs take the remaining slots.
  for (std::size_t r = slots.size(); r-- > 0;) {
    rings[r].occupy_pair(slots[r].backward_up);
    while (!rings[r].pair_is_free(slot)) ++slot;
    slots[r].backward_down = slot;
    slot += 2;
  }
  return slots;
}

/// Returns options that differ only in the warm-up. Whole backwards have no separate W that could be placed.
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
