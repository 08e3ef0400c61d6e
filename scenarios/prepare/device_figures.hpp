#pragma once
// The figures of stages that were priced on devices. Used by device_prices.cpp.

#include "scenarios/model/model.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

/// Those that cost what `costs` says. Requires stages that are a chain.
StageFigures figures_of_stages(const CostTable& costs);

}  // namespace penstock
