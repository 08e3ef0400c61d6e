#pragma once
// Where a search starts. Private to schedules/.

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/search/order_rules.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// What long searches found elsewhere (starting_rule_table.hpp), fitted to `costs`: that of limits nearby in
/// several variants, and all that does with less memory in just that much, so that a larger limit starts
/// from what a smaller one starts from. The nearest limits come first.
std::vector<OrderRules> starting_rules(const OrderCosts& costs);

/// Rules without caps whose ranks may pause for nearly as long as the busiest one must where no order is
/// shorter than `bound`; none where that is not at all. From one and a half to twice 1F1B's memory on they
/// often are as short as the bound.
std::vector<OrderRules> rules_aimed_at(Ns bound, const OrderCosts& costs);

}  // namespace penstock
