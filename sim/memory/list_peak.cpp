// Computes the peak memory of ranks from the order of their lists. A rank runs one action after another.
// Each action charges bytes (adds them to the rank's memory) at its start, and releases bytes at its end.
// The next action starts at this end or later, and releases come first at equal times. So the peak is
// always at the start of an action, and it does not depend on the times.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/streamed_walk.hpp"
#include "sim/memory/peaks.hpp"

namespace penstock {

std::optional<std::vector<Bytes>> list_peaks(const Program& program, const CostTable& costs) {
  // If edges have bytes, there are message buffers. They are filled and freed at times that depend on other
  // ranks.
  if (!follows_from_lists(program, costs) || std::ranges::any_of(costs.edges, has_bytes)) return std::nullopt;
  ListHoldings holdings(costs);
  std::vector<Bytes> peaks = held_at_start(program, costs);
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    Bytes held = peaks[rank];
    for (const Action& action : program.ranks[rank]) {
      const std::optional<ActionHolding> holding = holdings.next(action);
      if (!holding) return std::nullopt;
      held += holding->charged;
      peaks[rank] = std::max(peaks[rank], held + holding->transient);
      held -= holding->released;
    }
  }
  return peaks;
}

// F charges activations, which are released by B, or by I and W. The first B or W after a STEP charges the
// gradients, and the next STEP releases them. I charges the activations that it recomputes, and W releases
// them:
//
//   F   + kept        B   + gradients, - kept        STEP   - gradients
//                     I   + recomputed               W      + gradients, - kept, - recomputed

bool is_held_by_actions(const Program& program, const CostTable& costs) {
  return program.update == UpdateRule::minibatch && !program.mixed_versions && program.sharding == 0 &&
         program.iterations == 1 && !costs.microbatches_differ() && !holds_local_activations(program, costs);
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
    // A STEP releases gradients. Their bytes depend on earlier actions, so next() adds them.
    kinds_[stage][static_cast<std::size_t>(ActionKind::step)].known = true;
  }
}

}  // namespace penstock
