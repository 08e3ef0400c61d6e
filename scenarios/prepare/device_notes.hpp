#pragma once
// What is said of a model that is priced on named devices. Used by device_prices.cpp.

#include <string>
#include <vector>

#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// One note a subject: the devices and who shares what, what the prices rest on, each term that is not what
/// kernels explain. Requires a workload whose degrees are settled.
std::vector<std::string> device_notes(const Workload& work, const LayerSplit& split);

}  // namespace penstock
