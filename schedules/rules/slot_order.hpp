#pragma once
// Makes lists for Chimera and Hanayo. These schedules are defined on a grid of equal slots, and each slot
// holds one F or B. Only schedules/ includes this header.

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

/// The slots of a microbatch that goes forward through all stages and back without a pause. Its forwards use
/// consecutive slots from `first_slot`, and its backwards use the slots after them.
struct SlotWalk {
  std::int64_t first_slot = 0;
  std::int32_t stages = 0;

  std::int64_t forward_slot(std::int32_t stage) const { return first_slot + stage; }
  std::int64_t backward_slot(std::int32_t stage) const {
    return first_slot + 2 * std::int64_t{stages} - 1 - stage;
  }
};

/// Returns the actions in ascending order of slots. Actions in the same slot keep their order. The function
/// uses a counting sort, because there are not many more slots than actions.
inline std::vector<Action> in_slot_order(const std::vector<SlottedAction>& slotted) {
  std::vector<std::size_t> places;  // by slot + 1: the index of the slot's next action
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

}  // namespace penstock
