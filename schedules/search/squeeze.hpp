#pragma once
// Local search on complete lists: actions move to an earlier position as long as that makes the program
// shorter. Only schedules/ includes this header.

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// Returns improved lists. It moves one F, B or I at a time, by at most two positions to the front. A move is
/// accepted if all ranks respect their memory limits, and the longest span of a rank decreases. It is also
/// accepted if this span stays equal and the sum of all ends decreases. It stops when no move helps, when the
/// rank with the longest span never pauses, or after a fixed amount of work. Requires lists of F, I, W and B
/// that can run and fit into memory.
std::vector<std::vector<Action>> squeeze(const std::vector<std::vector<Action>>& lists,
                                         const OrderCosts& costs);

}  // namespace penstock
