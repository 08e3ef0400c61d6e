#pragma once
// Schedules that are drawn on a grid of equal slots, one F or one B each: Chimera and Hanayo. Private to
// schedules/.

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

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

/// The actions by ascending slot; those that share one stay in the order given. Slots are counted, not
/// compared: there are hardly more of them than actions.
inline std::vector<Action> in_slot_order(const std::vector<SlottedAction>& slotted) {
  std::vector<std::size_t> places;  // by slot and one further: where its next action goes
  for (const SlottedAction& each : slotted) {
    const std::size_t slot = index(each.slot);
    if (places.size() < slot + 2) places.resize(slot + 2, 0);
    ++places[slot + 1];
  }
  std::partial_sum(places.begin(), places.end(), places.begin());
  std::vector<Action> actions;
  actions.reserve(slotted.size() + 2);  // and STEPs, which rules append
  actions.resize(slotted.size());
  for (const SlottedAction& each : slotted) actions[places[index(each.slot)]++] = each.action;
  return actions;
}

}  // namespace penstock
