#pragma once
// Whether any order at all is shorter than a length: all orders, by branch and bound.

#include <cstdint>

#include "schedules/ir/search_effort.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

enum class ShorterOrder : std::uint8_t { exists, impossible, unknown };

/// Tries all orders of F, I and W, each started as early as it can be, that keep within memory. `unknown`
/// after so many `steps`. Microbatches are alike, so that those of one stage run in ascending order.
ShorterOrder shorter_order(const OrderCosts& costs, Objective objective, Ns length, std::int64_t steps);

}  // namespace penstock
