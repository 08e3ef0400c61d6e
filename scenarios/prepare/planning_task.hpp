#pragma once
// The input of a partitioner: the layers with their costs, the cluster as levels of bandwidth, and the memory
// limit. Used by planned_scenario.hpp and planned_partition.cpp, and by the search over plans.

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

/// Returns the scenario with parallel branches of its layers merged and a note about it, if the layers have
/// too many downsets for planning. Other scenarios are returned unchanged.
Scenario with_merged_branches(Scenario scenario);

// --- planning levels -------------------------------------------------------------------------------------

/// Returns the levels of bandwidth of a cluster, from the lowest to the highest. It omits levels of one
/// component unless there is no other level. For a cluster given link by link it uses cluster_levels(). Other
/// clusters number their devices component by component, so `devices` is empty. Error: a uniform cluster
/// without a number of devices.
tl::expected<ClusterLevels, std::string> levels_of(const ClusterSpec& cluster);

// --- planning task ---------------------------------------------------------------------------------------

/// The input that all plans of a scenario share.
struct PlanningTask {
  LayerGraph layers;  ///< the layers with the times and bytes of one minibatch
  std::int64_t minibatch_size = 1;
  std::vector<BandwidthLevel> levels;
  /// The devices component by component. If empty, they have the order of the cluster.
  std::vector<std::int32_t> devices;
  PlanOptions options;  ///< with the devices' memory if no limit is stated
  std::int64_t state_bytes_per_weight_byte = 0;
};

/// Returns the task of a scenario. Errors: a model that does not consist of layers, no minibatch size, and
/// the errors of levels_of().
tl::expected<PlanningTask, std::string> planning_task(const Scenario& scenario, const PlanOptions& options);
/// Returns the task of a scenario on the levels of another cluster.
tl::expected<PlanningTask, std::string> planning_task_over(const Scenario& scenario, ClusterLevels cluster,
                                                           PlanOptions options);

}  // namespace penstock
