#pragma once
// What is said of a model that is priced on named devices. Used by device_prices.cpp.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// Returns one note a subject: the devices and who shares what, what the prices rest on, which `layers` each
/// stage has where they are balanced, each term that is not what kernels explain. Requires a workload whose
/// degrees are settled.
std::vector<std::string> device_notes(const Workload& work, const LayerSplit& split,
                                      std::span<const std::int64_t> layers);

}  // namespace penstock
