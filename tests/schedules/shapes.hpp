#pragma once
// Shapes for tests of every schedule.

#include <cstdint>

#include "schedules/rules/generators.hpp"

namespace penstock {

/// v of shapes that no schedule refuses for it: 2 where the shape decides, else 1. With 1 hanayo, whose waves
/// need an even v, would be left out of a test without a word.
inline std::int32_t chunks_to_try(const ScheduleInfo& schedule) { return takes_chunks(schedule) ? 2 : 1; }

}  // namespace penstock
