#pragma once
// Orders that other rules use as a starting point. Only schedules/rules includes this header.

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

/// Returns a list for each rank in which each microbatch runs completely after the previous one. Each W comes
/// directly after its I. The lists fit if the memory can store one microbatch.
std::vector<std::vector<Action>> one_by_one(const Program& placed);

}  // namespace penstock
