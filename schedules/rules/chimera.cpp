// Chimera (Li and Hoefler, SC'21): two 1F1B pipelines in opposite directions share the ranks, and the
// forwards of one fill the bubbles of the other. With 4 ranks and 4 microbatches (0 and 1 go down, 2 and 3
// up):
//
//   rank 0   F0 F1    F2 B2 F3 B3 B0    B1
//   rank 1      F0 F2 F1 F3 B2 B0 B3 B1
//   rank 2      F2 F0 F3 F1 B0 B2 B1 B3
//   rank 3   F2 F3    F0 B0 F1 B1 B2    B3
//
// Derived from the paper's figure for D = 4 and its numbers, in slots that one F or one B fills: in a unit of
// D microbatches half go down and half up, and the j-th of a direction runs stage s forward in slot s + 2j
// and backward in slot 2D-1-s + 2j. On a rank the forwards of one direction and those of the other have
// different parity, and so have the backwards; what has equal parity is a forward before slot D + r and a
// backward from there on. So no two actions share a slot, for even D only. Units follow each other after 2D
// slots, just the work of one unit, and by the same argument never collide: 2M + D - 2 slots in all for M a
// multiple of D, as published. A last unit of fewer microbatches splits them evenly. Forward doubling is not
// done.
//
// The weights are held twice: stage s is on ranks s and D-1-s. Each of the two reduces its gradient right
// after the stage's last backward on either (the paper's eager synchronisation), or with `reduction: at_end`
// at the end.

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

/// Which way a microbatch goes, and in which slots.
struct Passage {
  Direction direction = Direction::down;
  SlotWalk walk;
};

/// The unit that the microbatch is in, and its place there: the first half goes down, the rest up. With an
/// odd number of microbatches in the last unit one more goes down.
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

/// On either of the stage's two ranks: both lists must have the reduction at the same time.
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

/// Repeats with every unit; where the last one is not whole, all microbatches are written out, so that the
/// next iteration begins with a unit's first.
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
