// What backwards release of what F has charged, and how long weights live: a version from the STEP that makes
// it to the last action that runs with it.

#include "schedules/ir/needs.hpp"

#include <cstddef>
#include <cstdint>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

Bytes released_activations(const StageCost& cost, ActionKind kind) {
  if (kind == ActionKind::backward) return cost.kept;
  if (kind == ActionKind::backward_input) return cost.released_by_input;
  return kind == ActionKind::backward_weight ? cost.kept - cost.released_by_input : 0;
}

void VersionLives::note(const Action& action, std::int32_t position) {
  if (action.kind == ActionKind::step) {
    lives_.back().replaced_by = position;
    lives_.push_back({.made_by = position});
  } else if (has_weight_version(action.kind)) {
    const std::size_t version = index(action.weight_version);
    if (version < lives_.size()) lives_[version].last_used_by = position;
  }
}

}  // namespace penstock
