#pragma once
// How short an order can be at best. Private to schedules/.

#include "schedules/ir/search_effort.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// No order of the F, I and W of `costs` that keeps within its memory limits is shorter than this. Requires a
/// rank's stages to be as many as every other's.
Ns shortest_possible(const OrderCosts& costs, Objective objective);

}  // namespace penstock
