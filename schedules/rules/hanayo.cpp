// Hanayo (Liu et al., SC'23): the model goes down the ranks and back up W times, in W waves, so each rank has
// v = 2W chunks. Microbatches follow each other through these waves. With 2 ranks, one wave (stages 0 and 3
// on rank 0) and 2 microbatches:
//
//   rank 0   0F0 0F1     3F0 3B0 3F1 3B1 0B0     0B1
//   rank 1       1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1
//
// The rule is derived from the paper's idea, which folds Chimera so that all weights exist only once. Time is
// divided into slots, and each slot holds one F or one B of a chunk. There are S = 2WK stages. In a unit of K
// microbatches, microbatch j runs stage s forward in slot s + 2j and backward in slot 2S-1-s + 2j.
//
// No two actions share a slot. The backward continues the zigzag, so a rank runs a microbatch in slots of one
// parity in even passes and of the other parity in odd passes. Passes of equal parity are 2K slots apart, and
// the microbatches of a unit are spread over only 2K - 2 slots.
//
// The next unit begins 2S slots later, which is the work of one unit. If M is a multiple of K, all units take
// 2SM/K + 2K - 2 slots. This is the bubble of 1F1B with slots that are 2W times shorter. For W = 1 and M = K
// it equals Chimera's (D-2)/(2N+D-2) with D = N = 2K.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/slot_order.hpp"

namespace penstock {

ShapeCheck hanayo_takes(const Shape& shape) {
  if (shape.virtual_stages % 2 != 0) {
    return tl::unexpected(
        fmt::format("virtual_stages: a wave of hanayo is one chunk down and one chunk up, so it needs an "
                    "even number (twice the waves); got {}; the nearest that work are {}",
                    shape.virtual_stages,
                    shape.virtual_stages == 1
                        ? "2"
                        : fmt::format("{} and {}", shape.virtual_stages - 1, shape.virtual_stages + 1)));
  }
  return {};
}

Generated hanayo(const Shape& shape) {
  if (auto taken = hanayo_takes(shape); !taken) return tl::unexpected(taken.error());
  Program program = zigzag_program("hanayo", shape, shape.virtual_stages);
  std::vector<std::vector<SlottedAction>> slotted(program.ranks.size());
  for (std::vector<SlottedAction>& rank : slotted) {
    rank.reserve(2 * index(shape.microbatches) * index(shape.virtual_stages));
  }
  // Each microbatch puts its actions into slots of the ranks that it visits. in_slot_order() then makes the
  // lists.
  for (std::int32_t m = 0; m < shape.microbatches; ++m) {
    const std::int64_t unit = m / shape.stages;
    const std::int64_t place = m % shape.stages;
    const SlotWalk walk{.first_slot = 2 * (program.stage_count() * unit + place),
                        .stages = program.stage_count()};
    for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
      auto& rank = slotted[static_cast<std::size_t>(program.placement.rank_of(stage, m))];
      rank.push_back({walk.forward_slot(stage), forward(stage, m)});
      rank.push_back({walk.backward_slot(stage), backward(stage, m)});
    }
  }
  for (std::size_t rank = 0; rank < slotted.size(); ++rank) {
    program.ranks[rank] = in_slot_order(slotted[rank]);
  }
  append_steps(program);
  insert_recompute(program, shape);
  return program;
}

}  // namespace penstock
