#pragma once
// Computes the automatic zero-bubble schedule under a memory limit. ZB-1p and ZB-2p use it with two
// different limits. synthesis.hpp searches longer and may find a shorter order. Only schedules/ includes
// this header.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// Returns the lists of the best variant of the heuristic, in which the longest span of a rank is smallest.
/// Returns nothing if all variants are longer than `longest`. Requires one stage on each rank, and memory
/// for one microbatch.
std::optional<std::vector<std::vector<Action>>> zero_bubble_order(const OrderCosts& costs, Ns longest);

/// Returns the best variant of the heuristic, or a shorter order from a search. Uses shape.costs,
/// shape.transfer_ns and shape.memory_limit. Without a memory limit, a rank may store `activations`
/// activations of its stage. The errors are the same as for order_costs().
Generated automatic_zero_bubble(std::string schedule, const Shape& shape, std::int64_t activations);

}  // namespace penstock
