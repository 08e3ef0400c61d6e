#pragma once
// Declares the rule that ZB-H1 and ZB-H2 share (implemented in zb_h1.cpp). Only schedules/ includes this
// header.

#include <cstdint>
#include <string>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// Returns a hand-made zero-bubble schedule without recomputations: ZB-H1 if `depth` is 1, ZB-H2 if it is 2.
RolledProgram hand_made_zero_bubble(std::string schedule, const Shape& shape, std::int32_t depth);

}  // namespace penstock
