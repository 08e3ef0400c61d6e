
#include "schedules/ir/needs.hpp"

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

Bytes released_activations(const StageCost& cost, ActionKind kind) {
  if (kind == ActionKind::backward) return cost.kept;
  if (kind == ActionKind::backward_input) return cost.released_by_input;
  return kind == ActionKind::backward_weight ? cost.kept - cost.released_by_input : 0;
}

Bytes recomputed_activations(const StageCost& cost, ActionKind kind) {
  const bool is_split = kind == ActionKind::backward_input || kind == ActionKind::backward_weight;
  return is_split ? cost.recomputed : 0;
}

Bytes transient_bytes(const StageCost& cost, ActionKind kind) {
  const bool is_split = kind == ActionKind::backward_input || kind == ActionKind::backward_weight;
  return cost.transient - (is_split ? cost.recomputed_at_once : 0);
}

}  // namespace penstock
