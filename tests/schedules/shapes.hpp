#pragma once
// Shapes for tests of all schedules.

#include <cstdint>

#include "schedules/rules/generators.hpp"

namespace penstock {

/// Returns a v that no schedule refuses: 2 if the shape determines v, and otherwise 1. With 1, hanayo would
/// be left out of a test without an error, because its waves need an even v.
inline std::int32_t chunks_to_try(const ScheduleInfo& schedule) { return takes_chunks(schedule) ? 2 : 1; }

}  // namespace penstock
