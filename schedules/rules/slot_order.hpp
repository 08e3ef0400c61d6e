#pragma once
// Schedules that are drawn on a grid of equal slots, one F or one B each: Chimera and Hanayo. Private to
// schedules/.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// An action and the slot in which its rank runs it.
struct SlottedAction {
  std::int64_t slot = 0;
  Action action;
};

/// A microbatch that walks through `stages` stages and back without a pause: its forwards fill one slot after
/// the other from `first_slot` on, its backwards those that follow.
struct SlotWalk {
  std::int64_t first_slot = 0;
  std::int32_t stages = 0;

  std::int64_t forward_slot(std::int32_t stage) const { return first_slot + stage; }
  std::int64_t backward_slot(std::int32_t stage) const {
    return first_slot + 2 * std::int64_t{stages} - 1 - stage;
  }
};

/// The actions by ascending slot; those that share one stay in the order given.
inline std::vector<Action> in_slot_order(std::vector<SlottedAction> slotted) {
  std::ranges::stable_sort(slotted, {}, &SlottedAction::slot);
  std::vector<Action> actions;
  actions.reserve(slotted.size());
  for (const SlottedAction& each : slotted) actions.push_back(each.action);
  return actions;
}

}  // namespace penstock
