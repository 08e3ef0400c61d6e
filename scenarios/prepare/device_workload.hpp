#pragma once
// Divides the work of a transformer among the devices of the cluster. Used by device_prices.cpp.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// Returns the model's workload with all degrees of parallelism set. Its microbatch size is still the
/// model's. Errors that do not depend on stages: degrees, heads, experts or sequences that do not divide;
/// more devices than the cluster has; a precision that the devices lack; copies that the schedule makes
/// itself.
tl::expected<Workload, std::string> device_workload(const Scenario& scenario, const DeviceModel& model);

}  // namespace penstock
