#pragma once
// Computes a lower bound on the length of orders. Only schedules/ includes this header.

#include "schedules/ir/search_effort.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// Returns a lower bound on the length of every order of F, I and W that respects the memory limits in
/// `costs`. Requires that all ranks have equally many stages.
Ns shortest_possible(const OrderCosts& costs, Objective objective);

}  // namespace penstock
