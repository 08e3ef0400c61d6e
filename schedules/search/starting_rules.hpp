#pragma once
// Chooses the rules from which a search starts. Only schedules/ includes this header.

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/search/order_builder.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// Returns rules from long searches (starting_rules.cpp), adapted to `costs`. Rules for the nearest memory
/// limits come first, in several variants. Rules for smaller limits are also tried with that smaller limit. A
/// larger limit therefore starts from all rules of a smaller limit.
std::vector<OrderRules> starting_rules(const OrderCosts& costs);

/// Returns rules without caps on microbatches and leads. They try to reach the length `bound`, and no order
/// can be shorter than `bound`. In an order of this length, the busiest rank has some idle time. Each rank
/// may be idle for about this time. If this time is 0, the result is empty. With 1.5 to 2 times the memory of
/// 1F1B, these rules often reach the bound.
std::vector<OrderRules> rules_aimed_at(Ns bound, const OrderCosts& costs);

}  // namespace penstock
