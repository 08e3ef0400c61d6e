#pragma once
// From a transformer on named devices to a scenario of stages: what each stage costs and holds, which links lie
// between them, how many devices all copies take. Used by experiment.cpp.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// One pipeline of the copies, which are alike, as any other scenario, and what is trained in all of them.
struct DevicePrices {
  Scenario scenario;
  TrainedModel trained;
};

/// Requires that the scenario's model is `model`. Errors: degrees, layers, heads, experts, sequences or batches
/// that do not divide, more devices than the cluster has, a precision that the devices do not have, copies
/// that the schedule makes itself.
tl::expected<DevicePrices, std::string> price_on_devices(const Scenario& scenario, const DeviceModel& model);

}  // namespace penstock
