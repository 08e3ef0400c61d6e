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
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

// --- merged layers ---------------------------------------------------------------------------------------

/// The scenario with the parallel branches of its layers merged where they have too many downsets to be
/// planned over, and a note that says so; others as they are.
Scenario with_merged_branches(Scenario scenario);

// --- planning levels -------------------------------------------------------------------------------------

/// The levels of bandwidth of a cluster, from the lowest to the highest; those of one component are left out
/// unless no other is there. Of a cluster given link by link those of cluster_levels(); others number their
/// devices component by component, and `devices` is empty. Error: a uniform cluster without a number of
/// devices.
tl::expected<ClusterLevels, std::string> levels_of(const ClusterSpec& cluster);

// --- planning task ---------------------------------------------------------------------------------------

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
