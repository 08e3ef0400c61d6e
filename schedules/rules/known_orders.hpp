#pragma once
// Orders that other rules start from. Private to schedules/rules.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/follow_order.hpp"

namespace penstock {

/// What ZB-V under a memory limit chooses from (zb_v.cpp); the last choice never jams where one microbatch
/// fits.
std::vector<OrderChoice> orders_on_a_v(const Shape& shape);

/// Each microbatch with all that it does after the one before it, its W right behind its I: what fits
/// wherever one microbatch does. By rank.
std::vector<std::vector<Action>> one_by_one(const Program& placed);

}  // namespace penstock
