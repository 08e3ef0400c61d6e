#pragma once
// What a partitioner asks of a scenario: its layers with what they cost, its cluster as levels of bandwidth,
// the memory to keep. Used by planned_scenario.hpp and planned_partition.cpp, and by the search over plans.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/cluster_levels.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// What all plans of a scenario share.
struct PlanningTask {
  LayerGraph layers;  ///< with the times and bytes of the minibatch
  std::int64_t minibatch_size = 1;
  std::vector<BandwidthLevel> levels;
  std::vector<std::int32_t> devices;  ///< component by component; empty: as the cluster numbers them
  PlanOptions options;                ///< with the devices' memory, where no limit is stated
  std::int64_t state_bytes_per_weight_byte = 0;
};

/// Errors: a model that is not layers, no size of a minibatch, those of levels_of().
tl::expected<PlanningTask, std::string> planning_task(const Scenario& scenario, const PlanOptions& options);
/// The same over a cluster that is stated otherwise.
tl::expected<PlanningTask, std::string> planning_task_over(const Scenario& scenario, ClusterLevels cluster,
                                                           PlanOptions options);

}  // namespace penstock
