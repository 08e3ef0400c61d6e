#pragma once
// What ZB-H1 and ZB-H2 share (zb_h1.cpp holds the rule). Private to schedules/.

#include <cstdint>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// Fills the lists of a hand-made zero-bubble schedule, ZB-H1 for a depth of 1 and ZB-H2 for 2.
void append_hand_made_zero_bubble(Program& program, const Shape& shape, std::int32_t depth);

}  // namespace penstock
