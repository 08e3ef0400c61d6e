#pragma once
// Local search on finished lists: actions move forward while that makes the program shorter. Private to
// schedules/.

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// Moves one F, B or I at a time up to two places forward in its list and keeps the move if the longest span
/// of a rank shrinks, or stays and the ends sum up to less, and no rank exceeds its memory limit. Stops when
/// no move helps, when no rank pauses in the longest span, or after a fixed amount of work. Requires lists
/// of F, I, W and B that can run and fit into memory.
std::vector<std::vector<Action>> squeeze(const std::vector<std::vector<Action>>& lists,
                                         const OrderCosts& costs);

}  // namespace penstock
