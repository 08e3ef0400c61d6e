#pragma once
// Orders from which other schedules start, such as the orders that ZB-V tries under a memory limit. Only
// schedules/rules includes this header.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/follow_order.hpp"

namespace penstock {

/// Returns the orders that ZB-V tries under a memory limit (v_placement.cpp). The last order always fits if
/// the memory can store one microbatch.
std::vector<OrderChoice> orders_on_a_v(const Shape& shape);

/// Returns a list for each rank in which each microbatch ends on all stages before the next one begins.
/// Each W (gradient of the weights) comes directly after its I (gradient of the input). The lists fit if
/// the memory can store one microbatch.
std::vector<std::vector<Action>> one_by_one(const Program& placed);

}  // namespace penstock
