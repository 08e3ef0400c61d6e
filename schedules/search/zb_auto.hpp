#pragma once
// The automatic zero-bubble schedule under a memory limit. ZB-1p and ZB-2p are two limits of it. Only
// schedules/ includes this header.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// Returns the lists of the heuristic's variant whose longest span is shortest, or nothing if each is longer
/// than `longest`. Requires one stage a rank and memory for one microbatch.
std::optional<std::vector<std::vector<Action>>> zero_bubble_order(const OrderCosts& costs, Ns longest);

/// Returns the best of the heuristic's variants, or of a search, for shape.costs, shape.transfer_ns and
/// shape.memory_limit. If no limit is given, a rank may hold `activations` activations of its stage. Errors:
/// those of order_costs().
Generated automatic_zero_bubble(std::string schedule, const Shape& shape, std::int64_t activations);

}  // namespace penstock
