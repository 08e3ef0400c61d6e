// Zero-bubble schedules with one stage on a rank: the backward is split into I and W, and Ws fill the gaps.
// zb-h1 and zb-h2 have fixed formulas, zb-1p and zb-2p use the heuristic of search/zb_auto.cpp, and
// synthesized uses the search of search/synthesis.hpp. v_placement.cpp has schedules with two chunks. Tested
// by picture_test.cpp and weighed_costs_test.cpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/stage_replicas.hpp"
#include "schedules/search/order_follower.hpp"
#include "schedules/search/synthesis.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// Returns the loops of the zero-bubble paper's hand-made schedules: of ZB-H1 if `depth` is 1, or of ZB-H2
/// if it is 2. The result has no recomputations.
RolledProgram hand_made_zero_bubble(std::string schedule, const Shape& shape, std::int32_t depth);

// ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR'24, section 2): 1F1B with each backward split
// into I and W. Rank r delays its Ws by r microbatches and fills the drain with them. Every rank then stores
// at most K activations, like rank 0 of 1F1B. With 3 stages and 4 microbatches:
//
//   rank 0   F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3
//   rank 1      F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//   rank 2         F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
//
// The authors' code requires M >= 2K. This rule also accepts fewer microbatches and then places fewer
// forwards.

/// Returns the loops of ZB-H1 or ZB-H2. Rank r runs depth * (K-1-r) warm-up forwards and delays each W by
/// depth * r microbatches. After the warm-up, each repetition is one of four patterns: I alone, F I, I W or F
/// I W. With replicas of stages, stage_replicas.cpp gives the warm-up w of a stage. The delay is then depth *
/// (w' - w), where w' is the warm-up that the stage would have as the first stage.
RolledProgram hand_made_zero_bubble(std::string schedule, const Shape& shape, std::int32_t depth) {
  RolledProgram rolled = replicated_program(std::move(schedule), shape);
  const std::vector<StageReplica> replicas = stage_replicas(shape);
  for (const StageReplica& replica : replicas) {
    ActionLoops& list = rolled.lists[index(replica.rank)];
    const std::int32_t stage = replica.stage;
    const std::int32_t last = replica.count;
    const std::int32_t ahead = replica.usual_warmup();
    const std::int32_t at_front = round_robin_warmup(replicas.front().here_and_later, replica.step);
    const std::int32_t warmup = std::min(last, depth * ahead);
    const std::int32_t delay = std::min(last, depth * (at_front - ahead));
    const std::int32_t with_forward = last - warmup;
    list.repeat({forward(stage, replica.first)}, warmup, replica.step);
    const std::array cuts = {0, std::min(with_forward, delay), std::max(with_forward, delay), last};
    for (std::size_t part = 0; part + 1 < cuts.size(); ++part) {
      const std::int32_t k = cuts[part];
      std::vector<PatternAction> pattern;
      if (k < with_forward) pattern.push_back({.action = forward(stage, replica.microbatch(warmup + k))});
      pattern.push_back({.action = compute(ActionKind::backward_input, stage, replica.microbatch(k))});
      if (k >= delay) {
        pattern.push_back(
            {.action = compute(ActionKind::backward_weight, stage, replica.microbatch(k - delay))});
      }
      list.repeat(std::move(pattern), cuts[part + 1] - k, replica.step);
    }
    list.repeat({compute(ActionKind::backward_weight, stage, replica.microbatch(last - delay))}, delay,
                replica.step);
  }
  append_updates(rolled, shape);
  return rolled;
}

GeneratedLoops zb_h1_loops(const Shape& shape) { return hand_made_zero_bubble("zb-h1", shape, 1); }

Generated zb_h1(const Shape& shape) { return spelled_out(hand_made_zero_bubble("zb-h1", shape, 1), shape); }

// ZB-H2 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR'24, section 2): ZB-H1 with twice the warm-up
// forwards and twice the delay of W. Each rank then works without a pause from its first to its last action.
// A rank stores at most 2K - 1 activations. With 3 stages and 6 microbatches:
//
//   rank 0   F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5
//   rank 1      F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5
//   rank 2         F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5
//
// Ranks start one after the other and end one after the other. The remaining bubble is before the first and
// after the last action of each rank. It disappears if the ranks are not synchronised before the update (the
// paper's post-validation). The authors' code requires M >= 2K. This rule also accepts fewer microbatches and
// then places fewer forwards.

GeneratedLoops zb_h2_loops(const Shape& shape) { return hand_made_zero_bubble("zb-h2", shape, 2); }

Generated zb_h2(const Shape& shape) { return spelled_out(hand_made_zero_bubble("zb-h2", shape, 2), shape); }

// ZB-1p (Qi et al., ICLR'24): the automatic zero-bubble schedule with the memory of 1F1B. A rank stores at
// most K activations, unless shape.memory_limit states another limit. The heuristic is in zb_auto.cpp. With 3
// stages and 4 microbatches of equal times:
//
//   rank 0   F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3
//   rank 1      F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//   rank 2         F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3

Generated zb_1p(const Shape& shape) { return automatic_zero_bubble("zb-1p", shape, shape.stages); }

// ZB-2p (Qi et al., ICLR'24): the automatic zero-bubble schedule with twice the memory of 1F1B. A rank stores
// at most 2K activations, unless shape.memory_limit states another limit. The heuristic is in zb_auto.cpp.
// With 3 stages and 6 microbatches of equal times:
//
//   rank 0   F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5
//   rank 1      F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 I4 W1 W2 I5 W3 W4 W5
//   rank 2         F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5

Generated zb_2p(const Shape& shape) {
  return automatic_zero_bubble("zb-2p", shape, 2 * std::int64_t{shape.stages});
}

// Searches for a short order for the given costs under a memory limit. A rank has one chunk, two chunks on a
// V, or v interleaved chunks. With 3 ranks, 4 microbatches and memory for 3 microbatches:
//   rank 0   F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3
//   rank 1      F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//   rank 2         F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
//
// The search starts from known orders: the automatic zero-bubble schedule for one chunk, the orders of ZB-V
// for a V, the interleaved zero-bubble schedule if it fits, and one microbatch after the other. Without
// costs, the result is the best of these orders. A lower bound that holds for every order
// (search/synthesis.cpp) shows how good the result is. Tested by synthesis_test.cpp.

namespace {

using Lists = std::vector<std::vector<Action>>;

/// Returns true if the chunks of each rank are placed as a V, which is the default for two chunks. In a V,
/// the last rank has two consecutive stages, so one transfer in each direction is not needed.
bool lies_as_a_v(const Shape& shape) {
  if (shape.placement != ChunkPlacement::by_number) return shape.placement == ChunkPlacement::v;
  return shape.virtual_stages == 2;
}

Program placed(const Shape& shape) {
  return lies_as_a_v(shape) ? zigzag_program("synthesized", shape, shape.virtual_stages)
                            : looped_program("synthesized", shape);
}

bool fits(const Lists& lists, const OrderCosts& costs) {
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (peak_kept(lists[rank], costs) > costs.memory_limit[rank]) return false;
  }
  return true;
}

/// Adds the lists of the interleaved zero-bubble schedule with v chunks on each rank to `known`. Does nothing
/// if this schedule rejects the shape or does not fit into memory.
void add_interleaved(std::vector<Lists>& known, const Shape& shape, const OrderCosts& costs) {
  auto program = interleaved_zero_bubble(
      {.stages = shape.stages, .microbatches = shape.microbatches, .virtual_stages = shape.virtual_stages});
  if (!program) return;
  for (std::vector<Action>& list : program->ranks)
    std::erase_if(list, [](const Action& action) { return action.kind == ActionKind::step; });
  if (fits(program->ranks, costs)) known.push_back(std::move(program->ranks));
}

/// Returns the known orders from which the synthesis starts its search. It may leave out orders that take
/// longer than `longest`. The last order is long, but it fits into any memory that can store one
/// microbatch.
std::vector<Lists> known_orders(const Program& program, const Shape& shape, const OrderCosts& costs,
                                Ns longest) {
  std::vector<Lists> known;
  if (shape.virtual_stages == 1) {
    if (auto order = zero_bubble_order(costs, longest)) known.push_back(*std::move(order));
  } else if (!lies_as_a_v(shape)) {
    add_interleaved(known, shape, costs);
  } else if (shape.virtual_stages == 2) {
    if (auto lists = best_followed(costs, orders_on_a_v(shape), longest)) known.push_back(*std::move(lists));
  }
  if (longest == kAnyLength) known.push_back(one_by_one(program));
  return known;
}

std::string milliseconds(Ns ns) { return fmt::format("{:.6g} ms", static_cast<double>(ns) * 1e-6); }

/// Returns a remark about the quality of the order and the number of passes in the search.
std::string note_of(const Synthesis& found, const Shape& shape) {
  const char* measure = shape.objective == Objective::span ? "longest span" : "makespan";
  if (found.is_optimal()) {
    return fmt::format("synthesized: the {} of {} is optimal: no order under this memory limit is shorter",
                       measure, milliseconds(found.length_ns));
  }
  const double gap =
      static_cast<double>(found.length_ns - found.bound_ns) / static_cast<double>(found.bound_ns);
  const std::int64_t passes = std::min(found.passes, shape.effort.passes);
  const bool by_time = passes < shape.effort.passes;
  return fmt::format(
      "synthesized: the {} of {} is at most {:.3g} % above the best possible (bound {}); {} passes{}, seed "
      "{}",
      measure, milliseconds(found.length_ns), 100 * gap, milliseconds(found.bound_ns), passes,
      by_time ? fmt::format(", at which the {:g} s were over", shape.effort.budget_seconds) : "",
      shape.effort.seed);
}

}  // namespace

std::vector<std::vector<Action>> one_by_one(const Program& placed) {
  Lists lists(placed.ranks.size());
  const auto list_of = [&](std::int32_t stage) -> std::vector<Action>& {
    return lists[index(placed.placement.rank_of(stage, 0))];
  };
  for (std::int32_t m = 0; m < placed.microbatches; ++m) {
    for (std::int32_t stage = 0; stage < placed.stage_count(); ++stage)
      list_of(stage).push_back(forward(stage, m));
    for (std::int32_t stage = placed.stage_count() - 1; stage >= 0; --stage) {
      list_of(stage).push_back(compute(ActionKind::backward_input, stage, m));
      list_of(stage).push_back(compute(ActionKind::backward_weight, stage, m));
    }
  }
  return lists;
}

GeneratedWithNotes synthesized_with_notes(const Shape& shape) {
  Program program = placed(shape);
  const auto costs = order_costs(shape, program, std::int64_t{shape.stages} * shape.virtual_stages);
  if (!costs) return tl::unexpected(costs.error());
  SearchEffort effort = shape.effort;
  if (!shape.costs) effort.passes = 0;
  Synthesis found = synthesize(*costs, shape.objective, effort, [&](const OrderCosts& within, Ns longest) {
    return known_orders(program, shape, within, longest);
  });
  program.ranks = std::move(found.lists);
  append_steps(program);
  return ProgramWithNotes{.program = std::move(program), .notes = {note_of(found, shape)}};
}

Generated synthesized(const Shape& shape) {
  return synthesized_with_notes(shape).map([](ProgramWithNotes answer) { return std::move(answer.program); });
}

}  // namespace penstock
