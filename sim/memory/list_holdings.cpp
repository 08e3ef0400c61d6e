// F holds its activations until B releases them, or I and W do. The first B or W after a STEP charges the
// gradients, and the STEP releases them. I charges what it recomputes, and W releases it:
//
//   F   + kept        B   + gradients, - kept        STEP   - gradients
//                     I   + recomputed               W      + gradients, - kept, - recomputed

#include "sim/memory/list_holdings.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/streamable.hpp"

namespace penstock {

bool is_held_by_actions(const Program& program, const CostTable& costs) {
  return program.update == UpdateRule::minibatch && !program.mixed_versions && program.sharding == 0 &&
         program.iterations == 1 && !costs.microbatches_differ();
}

bool follows_from_lists(const Program& program, const CostTable& costs) {
  return is_held_by_actions(program, costs) && std::ranges::all_of(costs.stages, takes_time);
}

std::vector<Bytes> held_at_start(const Program& program, const CostTable& costs) {
  std::vector<Bytes> held(program.ranks.size(), 0);
  for (std::size_t stage = 0; stage < program.placement.stages.size(); ++stage) {
    const StageCost& cost = costs.stages[stage];
    for (const std::int32_t rank : program.placement.stages[stage].ranks)
      held[index(rank)] += cost.weights + cost.cloned_weights + cost.optimizer_state;
  }
  return held;
}

ListHoldings::ListHoldings(const CostTable& costs)
    : costs_(costs), kinds_(costs.stages.size()), gradients_(costs.stages.size(), 0) {
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageCost& cost = costs.stages[stage];
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward, ActionKind::backward_input,
                                  ActionKind::backward_weight}) {
      kinds_[stage][static_cast<std::size_t>(kind)] = {
          .known = true,
          .holding = {.charged = kind == ActionKind::forward ? cost.kept : 0,
                      .transient = transient_bytes(cost, kind),
                      .released = released_activations(cost, kind)}};
    }
    kinds_[stage][static_cast<std::size_t>(ActionKind::backward_input)].holding.charged += cost.recomputed;
    kinds_[stage][static_cast<std::size_t>(ActionKind::backward_weight)].holding.released += cost.recomputed;
    // The gradients depend on earlier actions, so next() adds them.
    kinds_[stage][static_cast<std::size_t>(ActionKind::step)].known = true;
  }
}

}  // namespace penstock
