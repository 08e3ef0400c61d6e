#pragma once
// Computes the period of a plan whose stages are given, by PipeDream's recurrence. Used where plans are
// ranked by another measure (planned_scenario.hpp).

#include <cstdint>
#include <span>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/partition/pipedream_partition.hpp"

namespace penstock {

/// The layers of a stage, and the devices of its replicas. Minibatch g runs on devices[g % devices.size()].
struct StatedStage {
  std::vector<std::int32_t> layers;
  std::vector<std::int32_t> devices;
};

/// Returns the plan of these stages with its period under the objective `maximum`. Each ring and each cut
/// uses the bandwidth of the lowest level with a component that contains all its devices. Devices are
/// numbered component by component. Requires stages in an order in which they can run, and at least one
/// device for each stage.
PipelinePlan stated_plan(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                         const std::vector<StatedStage>& stages, std::int64_t state_bytes_per_weight_byte);

}  // namespace penstock
