#pragma once
// Orders from which other rules start. Only schedules/rules includes this header.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/follow_order.hpp"

namespace penstock {

/// Returns the orders among which ZB-V chooses under a memory limit (zb_v.cpp). The last of them always works
/// if the memory holds one microbatch.
std::vector<OrderChoice> orders_on_a_v(const Shape& shape);

/// Returns lists by rank in which each microbatch runs completely after the previous one, each W directly
/// after its I. They work if the memory holds one microbatch.
std::vector<std::vector<Action>> one_by_one(const Program& placed);

}  // namespace penstock
