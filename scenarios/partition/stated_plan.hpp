#pragma once
// A plan whose stages are given instead of searched, with the period that PipeDream's recurrence gives it.
// Used where plans are ranked by another measure (planned_scenario.hpp).

#include <cstdint>
#include <span>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/partition/pipedream_partition.hpp"

namespace penstock {

/// A stage's layers, and the devices of its replicas: minibatch g runs on devices[g % devices.size()].
struct StatedStage {
  std::vector<std::int32_t> layers;
  std::vector<std::int32_t> devices;
};

/// Returns the plan of these stages with its period under the objective `maximum`. Each ring and each cut
/// uses the bandwidth of the lowest level that contains all its devices (numbered component by component).
/// Requires an order of stages in which they can run, and at least one device for each.
PipelinePlan stated_plan(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                         const std::vector<StatedStage>& stages, std::int64_t state_bytes_per_weight_byte);

}  // namespace penstock
