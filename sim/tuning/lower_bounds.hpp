#pragma once
// What a configuration takes at least, from its prices and its schedule's outline alone.

#include "scenarios/prepare/schedule_outline.hpp"
#include "schedules/ir/action.hpp"
#include "sim/tuning/configuration_prices.hpp"

namespace penstock {

struct LowerBounds {
  Ns step_ns = 0;
  Bytes peak_bytes = 0;  ///< of the fullest rank
};

/// Never above what the engines say of M microbatches.
LowerBounds lower_bounds(const PricedConfiguration& priced, const ScheduleOutline& outline,
                         std::int32_t microbatches);

}  // namespace penstock
