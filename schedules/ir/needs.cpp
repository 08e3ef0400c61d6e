// What backwards release of the activations that F has charged: B all of them, I the part that only the
// input's gradient reads, W the rest. The questions that every walk asks of every action are inline in
// needs.hpp.

#include "schedules/ir/needs.hpp"

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

Bytes released_activations(const StageCost& cost, ActionKind kind) {
  if (kind == ActionKind::backward) return cost.kept;
  if (kind == ActionKind::backward_input) return cost.released_by_input;
  return kind == ActionKind::backward_weight ? cost.kept - cost.released_by_input : 0;
}

}  // namespace penstock
