#pragma once
// A plan whose stages are stated instead of planned: what PipeDream's recurrence promises of it. Used where
// plans are ranked by something else (planned_scenario.hpp).

#include <cstdint>
#include <span>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/partition/pipedream_partition.hpp"

namespace penstock {

/// Layers, and the devices of their replicas: minibatch g runs on devices[g % devices.size()].
struct StatedStage {
  std::vector<std::int32_t> layers;
  std::vector<std::int32_t> devices;
};

/// The plan of these stages with the period that the objective `maximum` has for it, a ring and a cut at the
/// bandwidth of the lowest level that holds all its devices (numbered component by component). Requires an
/// order of stages in which they can run, and at least one device each.
PipelinePlan stated_plan(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                         const std::vector<StatedStage>& stages, std::int64_t state_bytes_per_weight_byte);

}  // namespace penstock
