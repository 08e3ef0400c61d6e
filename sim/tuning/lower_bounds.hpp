#pragma once
// Lower bounds of a configuration's time and memory, from its prices and its schedule's outline alone.

#include "scenarios/prepare/schedule_outline.hpp"
#include "schedules/ir/action.hpp"
#include "sim/tuning/configuration_prices.hpp"

namespace penstock {

struct LowerBounds {
  Ns step_ns = 0;
  Bytes peak_bytes = 0;  ///< peak of the fullest rank
};

/// Returns bounds that are never above the results of the engines for this number of microbatches.
LowerBounds lower_bounds(const PricedConfiguration& priced, const ScheduleOutline& outline,
                         std::int32_t microbatches);

}  // namespace penstock
