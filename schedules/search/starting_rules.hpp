#pragma once
// Chooses the rules (order_builder.hpp) from which a search starts, for the costs of a program. Only
// schedules/ includes this header.

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/search/order_builder.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// Returns rules that long searches have found (starting_rules.cpp), adapted to `costs`. The rules for the
/// nearest memory limits come first, in several variants. Rules for a smaller memory limit are also tried
/// with that smaller limit. A search with a larger limit therefore has all starting rules of a smaller
/// limit.
std::vector<OrderRules> starting_rules(const OrderCosts& costs);

/// Returns rules without caps on microbatches and leads, which try to reach the length `bound`. No order
/// can be shorter than `bound`. In an order of this length, the busiest rank is idle for `bound` minus its
/// work. The rules let each rank pause for about this time. If this time is 0, the result is empty. With
/// 1.5 to 2 times the memory of 1F1B, these rules often reach the bound.
std::vector<OrderRules> rules_aimed_at(Ns bound, const OrderCosts& costs);

}  // namespace penstock
