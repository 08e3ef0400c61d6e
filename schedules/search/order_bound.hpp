#pragma once
// A lower bound on the length of orders. Only schedules/ includes this header.

#include "schedules/ir/search_effort.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// Returns a length such that no order of the F, I and W of `costs` within its memory limits is shorter.
/// Requires that all ranks have equally many stages.
Ns shortest_possible(const OrderCosts& costs, Objective objective);

}  // namespace penstock
