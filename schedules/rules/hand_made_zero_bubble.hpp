#pragma once
// What ZB-H1 and ZB-H2 share (zb_h1.cpp holds the rule). Private to schedules/.

#include <cstdint>
#include <string>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// A hand-made zero-bubble schedule, ZB-H1 for a depth of 1 and ZB-H2 for 2, without recomputations.
RolledProgram hand_made_zero_bubble(std::string schedule, const Shape& shape, std::int32_t depth);

}  // namespace penstock
