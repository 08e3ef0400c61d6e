#pragma once
// The rules from which a search starts. Only schedules/ includes this header.

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/search/order_rules.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// Returns rules of long searches (starting_rule_table.hpp), fitted to `costs`, the nearest limits first.
/// Rules of similar limits come in several variants. All rules of smaller limits also come with only the
/// memory of that limit, so that a larger limit starts from everything that a smaller one starts from.
std::vector<OrderRules> starting_rules(const OrderCosts& costs);

/// Returns rules without caps that aim at `bound`, which no order beats. A rank may pause for nearly as long
/// as the busiest rank must at that length. Returns none if the bound leaves no pause. With one and a half to
/// two times 1F1B's memory, their orders often meet the bound.
std::vector<OrderRules> rules_aimed_at(Ns bound, const OrderCosts& costs);

}  // namespace penstock
