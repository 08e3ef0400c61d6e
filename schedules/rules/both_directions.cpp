// Schedules on a grid of equal slots in which microbatches go through the ranks in both directions:
// chimera, hanayo and gems. dual_pipe.cpp has the schedules that overlap an F of one direction with a B of
// the other. The first part sorts actions by slot. Tested by picture_test.cpp and conformance_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

// Makes lists for Chimera and Hanayo. These schedules are defined on a grid of equal slots, and each slot
// holds one F or B.

/// An action and the slot in which its rank runs it.
struct SlottedAction {
  std::int64_t slot = 0;
  Action action;
};

/// The slots of a microbatch that goes forward through all stages and back without a pause. Its forwards use
/// consecutive slots from `first_slot` on. Its backwards use the slots directly after them.
struct SlotWalk {
  std::int64_t first_slot = 0;
  std::int32_t stages = 0;

  std::int64_t forward_slot(std::int32_t stage) const { return first_slot + stage; }
  std::int64_t backward_slot(std::int32_t stage) const {
    return first_slot + 2 * std::int64_t{stages} - 1 - stage;
  }
};

/// Returns the actions in ascending order of slots. Actions in the same slot keep their order. The function
/// uses a counting sort, because there are only a few more slots than actions.
inline std::vector<Action> in_slot_order(const std::vector<SlottedAction>& slotted) {
  std::vector<std::size_t> places;  // index of the next action of each slot; the entry of slot s is at s + 1
  for (const SlottedAction& each : slotted) {
    const std::size_t slot = index(each.slot);
    if (places.size() < slot + 2) places.resize(slot + 2, 0);
    ++places[slot + 1];
  }
  std::partial_sum(places.begin(), places.end(), places.begin());
  std::vector<Action> actions;
  actions.reserve(slotted.size() + 2);  // memory for STEPs, which rules append
  actions.resize(slotted.size());
  for (const SlottedAction& each : slotted) actions[places[index(each.slot)]++] = each.action;
  return actions;
}

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
// parity, and so do backwards. A forward and a backward with slots of equal parity cannot collide: the
// forward is before slot D + r, and the backward is not.
//
// The next unit begins 2D slots later, because the work of one unit takes 2D slots. Two units do not collide
// for the same reason. If M is a multiple of D, all units take 2M + D - 2 slots, as published. A smaller last
// unit splits its microbatches evenly. The paper's forward doubling is not implemented.
//
// The weights exist twice: stage s is on ranks s and D-1-s. Both ranks reduce the stage's gradient directly
// after the last backward of the stage on either of them (the paper's eager synchronisation). With
// `reduction: at_end` they reduce it at the end.

namespace {

enum class Direction : std::uint8_t { down, up };

/// The direction and the slots of a microbatch.
struct Passage {
  Direction direction = Direction::down;
  SlotWalk walk;
};

/// Returns the direction and the slots of a microbatch. K consecutive microbatches form a unit. The first
/// half of each unit goes down, and the other half goes up. If the last unit has an odd number of
/// microbatches, one more goes down.
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

/// Returns the slot of the last backward of `stage`. The stage is on two ranks, and both reduce its
/// gradient in this slot.
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

/// Returns the route of a stage: for each microbatch, which of the stage's two ranks runs it. The route
/// repeats with every unit of K microbatches. If the last unit is not complete, the route lists all
/// microbatches. The next iteration then begins with a new unit.
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
// No two actions share a slot. The backward continues the zigzag. A rank runs a microbatch in slots of one
// parity when the microbatch goes down the ranks, and of the other parity when it goes up. Passes of equal
// parity are 2K slots apart, but the microbatches of a unit are spread over only 2K - 2 slots.
//
// The next unit begins 2S slots later, because the work of one unit takes 2S slots. If M is a multiple of K,
// all units take 2SM/K + 2K - 2 slots. This is the bubble of 1F1B with slots that are 2W times shorter. For W
// = 1 and M = K it equals Chimera's (D-2)/(2N+D-2) with D = N = 2K.

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

// GEMS (Jain et al., SC'20): two copies of the model are on the ranks in opposite directions. Even
// microbatches go down the ranks, and odd ones go up. On each rank, a microbatch's forward comes after the
// backward of the previous microbatch, so a rank never stores more than one activation. With 3 ranks and 3
// microbatches:
//
//   rank 0   F0             B0 F1 B1 F2             B2
//   rank 1      F0       B0 F1       B1 F2       B2
//   rank 2         F0 B0 F1             B1 F2 B2
//
// The rule is derived from the published idea: two microbatches at a time, and at most one activation on a
// rank. The paper on Chimera (SC'21, Table 2) states the same bubble for GEMS: (K-1)/(K+1/2) with B = 2F. In
// steady state, two microbatches take the time of 4K+2 forwards, and a rank computes during 6 of them. The
// only advantage of GEMS is its low memory.
//
// The weights exist twice: stage s is on ranks s and K-1-s. These ranks reduce its gradient at the end.

Generated gems(const Shape& shape) {
  std::vector<std::int32_t> route{0, 1};
  if (shape.microbatches % 2 !=
      0) {  // the next iteration begins with direction 0, so the route lists a whole iteration
    route.clear();
    for (std::int32_t m = 0; m < shape.microbatches; ++m) route.push_back(m % 2);
  }
  Program program = bidirectional_program("gems", shape, route);
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    auto& list = program.ranks[static_cast<std::size_t>(rank)];
    for (std::int32_t m = 0; m < shape.microbatches; ++m) {
      const std::int32_t stage = m % 2 == 0 ? rank : shape.stages - 1 - rank;
      list.push_back(forward(stage, m));
      list.push_back(backward(stage, m));
    }
  }
  if (shape.replica_sync == ReplicaSync::on) append_reductions(program);
  append_steps(program);
  return program;
}

}  // namespace penstock
