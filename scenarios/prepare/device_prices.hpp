#pragma once
// From a transformer on named devices to a scenario of stages: what each stage costs and holds, which links
// lie between them, how many devices all copies take. Used by settle.cpp.

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/device_model.hpp"
#include "scenarios/prepare/settled_scenario.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

/// One pipeline of the copies, which are alike, as any other scenario, and what is trained in all of them.
struct DevicePrices {
  SettledScenario settled;
  Workload work;  ///< with its degrees and its microbatch settled
  std::shared_ptr<const KernelTables> kernels;
  std::vector<std::int64_t> layers;         ///< by model stage
  std::vector<std::int32_t> rank_of_stage;  ///< by model stage
  std::int64_t microbatches = 1;            ///< of one copy
};

/// Requires that the scenario's model is `model`. Errors: degrees, layers, heads, experts, sequences or
/// batches that do not divide, more devices than the cluster has, a precision that the devices do not have,
/// copies that the schedule makes itself.
tl::expected<DevicePrices, std::string> price_on_devices(const Scenario& scenario, const DeviceModel& model);

/// Puts into `costs` what the stages cost when the devices have other constants: those of `work`, which is
/// otherwise that of `prices`. Requires costs of a program whose stages are a chain.
void set_times(CostTable& costs, const DevicePrices& prices, const Workload& work);

}  // namespace penstock
