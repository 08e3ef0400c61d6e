// Chimera (Li and Hoefler, SC'21): two 1F1B pipelines in opposite directions share the ranks, and the
// forwards of one pipeline fill the bubbles of the other. With 4 ranks and 4 microbatches (0 and 1 go down, 2
// and 3 go up):
//
//   rank 0   F0 F1    F2 B2 F3 B3 B0    B1
//   rank 1      F0 F2 F1 F3 B2 B0 B3 B1
//   rank 2      F2 F0 F3 F1 B0 B2 B1 B3
//   rank 3   F2 F3    F0 B0 F1 B1 B2    B3
//
// The rule is derived from the paper's figure and numbers for D = 4. Time is divided into slots, and each
// slot holds one F or one B. In a unit of D microbatches, half go down and half go up. In each direction,
// microbatch j runs stage s forward in slot s + 2j and backward in slot 2D-1-s + 2j.
//
// If D is even, no two actions of a rank share a slot. Forwards of the two directions use slots of different
// parity, and so do backwards. A forward and a backward of equal parity cannot collide, because the forward
// is before slot D + r and the backward is not.
//
// The next unit begins 2D slots later, which is the work of one unit. It does not collide for the same
// reason. If M is a multiple of D, all units take 2M + D - 2 slots, as published. A smaller last unit splits
// its microbatches evenly. Forward doubling is not implemented.
//
// The weights exist twice: stage s is on ranks s and D-1-s. Both ranks reduce the stage's gradient directly
// after the last backward of the stage on either rank (the paper's eager synchronisation). With `reduction:
// at_end` they reduce it at the end.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/slot_order.hpp"

namespace penstock {
namespace {

enum class Direction : std::uint8_t { down, up };

/// The direction and the slots of a microbatch.
struct Passage {
  Direction direction = Direction::down;
  SlotWalk walk;
};

/// Returns the direction and the slots of a microbatch. The first half of each unit goes down, and the rest
/// goes up. If the last unit has an odd number of microbatches, one more goes down.
Passage passage_of(const Shape& shape, std::int32_t microbatch) {
  const std::int32_t ranks = shape.stages;
  const std::int32_t unit = microbatch / ranks;
  const std::int32_t in_unit = std::min(ranks, shape.microbatches - unit * ranks);
  const std::int32_t going_down = (in_unit + 1) / 2;
  const std::int32_t place = microbatch % ranks;
  const bool down = place < going_down;
  const std::int32_t number = down ? place : place - going_down;
  return {.direction = down ? Direction::down : Direction::up,
          .walk = {.first_slot = 2 * (std::int64_t{ranks} * unit + number), .stages = ranks}};
}

/// Returns the slot of the stage's last backward on either of its two ranks, because both lists must have the
/// reduction in the same slot.
std::int64_t last_backward_slot(const Shape& shape, std::int32_t stage) {
  std::int64_t last = 0;
  for (std::int32_t m = std::max(0, shape.microbatches - shape.stages); m < shape.microbatches; ++m) {
    last = std::max(last, passage_of(shape, m).walk.backward_slot(stage));
  }
  return last;
}

std::vector<Action> chimera_actions(const Shape& shape, std::int32_t rank) {
  const std::int32_t mirror = shape.stages - 1 - rank;
  std::vector<SlottedAction> slotted;
  slotted.reserve(2 * index(shape.microbatches) + 2);
  for (std::int32_t m = 0; m < shape.microbatches; ++m) {
    const Passage passage = passage_of(shape, m);
    const std::int32_t stage = passage.direction == Direction::down ? rank : mirror;
    slotted.push_back({passage.walk.forward_slot(stage), forward(stage, m)});
    slotted.push_back({passage.walk.backward_slot(stage), backward(stage, m)});
  }
  if (shape.replica_sync == ReplicaSync::on && shape.reduction == Reduction::overlapped) {
    for (const std::int32_t stage : {rank, mirror}) {
      slotted.push_back({last_backward_slot(shape, stage), whole_stage(ActionKind::reduce_grad, stage)});
    }
  }
  return in_slot_order(slotted);
}

/// Returns the route of microbatches, which repeats with every unit. If the last unit is not complete, the
/// route lists all microbatches, so that the next iteration begins with a new unit.
std::vector<std::int32_t> route_of(const Shape& shape) {
  const bool whole_units = shape.microbatches % shape.stages == 0;
  const std::int32_t period = whole_units ? shape.stages : shape.microbatches;
  std::vector<std::int32_t> route;
  route.reserve(static_cast<std::size_t>(period));
  for (std::int32_t m = 0; m < period; ++m) {
    route.push_back(passage_of(shape, m).direction == Direction::down ? 0 : 1);
  }
  return route;
}

}  // namespace

ShapeCheck chimera_takes(const Shape& shape) {
  if (shape.stages % 2 != 0) {
    return tl::unexpected(
        fmt::format("stages: chimera's two directions fill each other's bubbles only on an even number of "
                    "ranks; got {}; the nearest that work are {}",
                    shape.stages,
                    shape.stages == 1 ? "2" : fmt::format("{} and {}", shape.stages - 1, shape.stages + 1)));
  }
  return {};
}

Generated chimera(const Shape& shape) {
  if (auto taken = chimera_takes(shape); !taken) return tl::unexpected(taken.error());
  Program program = bidirectional_program("chimera", shape, route_of(shape));
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    program.ranks[static_cast<std::size_t>(rank)] = chimera_actions(shape, rank);
  }
  if (shape.replica_sync == ReplicaSync::on && shape.reduction == Reduction::at_end)
    append_reductions(program);
  append_steps(program);
  return program;
}

}  // namespace penstock
