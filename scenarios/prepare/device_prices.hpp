#pragma once
// From a transformer on named devices to a scenario of stages: what each stage costs and holds, which links
// lie between them, how many devices all copies take. Used by settle.cpp.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/one_copy.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/prepare/settle.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

// --- device figures --------------------------------------------------------------------------------------

/// Those that cost what `costs` says. Requires stages that are a chain.
StageFigures figures_of_stages(const CostTable& costs);

// --- device notes ----------------------------------------------------------------------------------------

/// Returns one note a subject: the devices and who shares what, what the prices rest on, which `layers` each
/// stage has where they are balanced, each term that is not what kernels explain. Requires a workload whose
/// degrees are settled.
std::vector<std::string> device_notes(const Workload& work, const LayerSplit& split,
                                      std::span<const std::int64_t> layers);

// --- device prices ---------------------------------------------------------------------------------------

/// One pipeline of the copies, which are alike, as any other scenario, and what is trained in all of them.
struct DevicePrices {
  SettledScenario settled;
  Workload work;  ///< with its degrees and its microbatch settled
  std::shared_ptr<const KernelTables> kernels;
  std::vector<std::int64_t> layers;         ///< by model stage
  std::vector<std::int32_t> rank_of_stage;  ///< by model stage
  std::int64_t microbatches = 1;            ///< of one copy
};

/// Of a copy on named devices, whose program is placed as the schedule in force says. Errors: layers that
/// cannot be shared out to its stages, times and bytes beyond 64 bits.
tl::expected<DevicePrices, std::string> device_prices(OneCopy copy, const ScheduleInForce& in_force,
                                                      const Program& placed);
/// The same with all steps up to there. Requires that the scenario's model is one on named devices. Errors:
/// degrees, layers, heads, experts, sequences or batches that do not divide, more devices than the cluster
/// has, a precision that the devices do not have, copies that the schedule makes itself.
tl::expected<DevicePrices, std::string> price_on_devices(const Scenario& scenario);

/// Puts into `costs` what the stages cost when the devices have other constants: those of `work`, which is
/// otherwise that of `prices`. Requires costs of a program whose stages are a chain.
void set_times(CostTable& costs, const DevicePrices& prices, const Workload& work);

}  // namespace penstock
