#pragma once
// Local search on finished lists: actions move forward while that makes the program shorter. Only schedules/
// includes this header.

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// Returns the lists after moving one F, B or I at a time up to two positions forward. A move is accepted if
/// no rank exceeds its memory limit and the longest span of a rank shrinks. It is also accepted if the span
/// stays and the sum of ends shrinks. Stops when no move helps, when the rank with the longest span never
/// pauses, or after a fixed amount of work. Requires lists of F, I, W and B that can run and fit into memory.
std::vector<std::vector<Action>> squeeze(const std::vector<std::vector<Action>>& lists,
                                         const OrderCosts& costs);

}  // namespace penstock
