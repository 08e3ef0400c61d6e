#pragma once
// How a scenario shares out a transformer's work over the devices of its cluster. Used by device_prices.cpp.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// The model's workload with its degrees of parallelism settled; its microbatch is still the model's. Errors
/// are all that can be said without stages: degrees, heads, experts or sequences that do not divide, more
/// devices than the cluster has, a precision that they do not have, copies that the schedule makes itself.
tl::expected<Workload, std::string> device_workload(const Scenario& scenario, const DeviceModel& model);

}  // namespace penstock
