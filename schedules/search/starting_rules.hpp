#pragma once
// Chooses the rules from which a search starts. Only schedules/ includes this header.

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/search/order_builder.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// Returns rules from long searches (starting_rules.cpp), adapted to `costs`. Rules for the nearest
/// memory limits come first, and they have several variants. Rules for smaller limits are also tried with the
/// memory of that limit only. A larger limit therefore starts from all rules of a smaller limit.
std::vector<OrderRules> starting_rules(const OrderCosts& costs);

/// Returns rules without caps that try to reach the length `bound`, a lower bound on every order. A rank may
/// pause nearly as long as the busiest rank must pause in an order of this length. Returns no rules if such
/// an order has no pause. With 1.5 to 2 times the memory of 1F1B, these rules often reach the bound.
std::vector<OrderRules> rules_aimed_at(Ns bound, const OrderCosts& costs);

}  // namespace penstock
