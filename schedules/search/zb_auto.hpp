#pragma once
// The automatic zero-bubble schedule under a memory limit, of which ZB-1p and ZB-2p are two limits. Private
// to schedules/.

#include <cstdint>
#include <string>

#include "schedules/ir/shape.hpp"

namespace penstock {

/// The best of the heuristic's variants for shape.costs, shape.transfer_ns and shape.memory_limit. Where no
/// limit is given, a rank may hold `activations` of its stage. Errors: those of order_costs.
Generated automatic_zero_bubble(std::string schedule, const Shape& shape, std::int64_t activations);

}  // namespace penstock
