#pragma once
// Applies PipeDream's partitioner to a scenario. This file makes the partitioner's input from the scenario,
// and then makes a scenario that runs the plan. `penstock plan`, the search over plans and `partition:
// pipedream` use this file. The partitioner itself is in pipedream_partition.hpp.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

// --- merged layers ---------------------------------------------------------------------------------------

/// Returns the scenario with parallel branches of its layer graph merged, and with a note about the merge.
/// Does this only if the graph has too many downsets for planning. Returns other scenarios unchanged.
Scenario with_merged_branches(Scenario scenario);

// --- planning levels -------------------------------------------------------------------------------------

/// Returns the levels of bandwidth of a cluster, from the lowest to the highest. It omits levels of one
/// component unless there is no other level. If the cluster states single links, it uses cluster_levels(). In
/// other clusters, the device numbers already follow the components, so `devices` is empty. Fails if a
/// uniform cluster has no number of devices.
tl::expected<ClusterLevels, std::string> levels_of(const ClusterSpec& cluster);

// --- planning task ---------------------------------------------------------------------------------------

/// The input of the partitioner, which all plans of a scenario share.
struct PlanningTask {
  LayerGraph layers;  ///< the layers with the times and bytes of one minibatch
  std::int64_t minibatch_size = 1;
  /// The number M of microbatches between two updates, if updates have a flush. `layers` and
  /// `minibatch_size` then describe one microbatch. It is 0 if each minibatch of a stream has its own
  /// update.
  std::int32_t microbatches = 0;
  std::vector<BandwidthLevel> levels;
  /// The device numbers of the cluster, grouped by component of the levels. If the list is empty, the order
  /// of the cluster's devices is used.
  std::vector<std::int32_t> devices;
  /// The options of the plan. If the user states no memory limit, the limit is the devices' memory.
  PlanOptions options;
  std::int64_t state_bytes_per_weight_byte = 0;
};

/// Returns the planning task of a scenario. Returns an error if the model does not consist of layers, or if
/// there is no minibatch size. Also returns an error if updates have a flush and there is no number of
/// microbatches, or if levels_of() fails.
tl::expected<PlanningTask, std::string> planning_task(const Scenario& scenario, const PlanOptions& options);
/// Returns the planning task of a scenario on the bandwidth levels of another cluster.
tl::expected<PlanningTask, std::string> planning_task_over(const Scenario& scenario, ClusterLevels cluster,
                                                           PlanOptions options);

/// A plan and the scenario that runs it.
struct PlannedScenario {
  PipelinePlan plan;  ///< the plan; its layer numbers refer to the scenario that was planned
  /// The number of samples of a minibatch; each minibatch runs on one replica of a stage.
  std::int64_t minibatch_size = 1;
  /// Number of microbatches between two updates; 0 if each minibatch of a stream has its own update.
  std::int32_t microbatches = 0;
  std::vector<BandwidthLevel> levels;
  PlanObjective objective = PlanObjective::maximum;
  std::optional<Bytes> memory_limit;  ///< the memory limit that the plan respects
  /// The scenario with the plan's stages and replicas. Its schedule is 1f1b-rr, or 1f1b if updates have a
  /// flush. Its layers are in the order of the stages, with a cut after each stage. The cluster's devices
  /// are in the order of the ranks.
  Scenario scenario;
};

/// Returns the plan with the figures for updates with a flush: replicas reduce their gradients once for M
/// microbatches, and a device holds one version of its weights. Returns the plan unchanged if the task has
/// no such updates.
PipelinePlan with_flush_of(PipelinePlan plan, const PlanningTask& task);

/// Returns the number of minibatches after which the assignment of minibatches to replicas repeats in all
/// stages. It is the least common multiple of the replica counts. Returns an error with the replica counts
/// if the result exceeds 2^31.
tl::expected<std::int64_t, std::string> turn_of_all_replicas(const PipelinePlan& plan);

/// Returns the scenario that runs `plan`, with the batch of `scenario`. `plan` must be a plan of `task`, and
/// its device numbers follow the components of the levels. Returns an error if the devices cannot be put in
/// the plan's order.
tl::expected<PlannedScenario, std::string> with_plan(const Scenario& scenario, const PlanningTask& task,
                                                     PipelinePlan plan);

/// Returns the scenario that runs `plan`, with a number of minibatches such that all replicas of a stage run
/// equally many. Fails if with_plan() or turn_of_all_replicas() fails.
tl::expected<PlannedScenario, std::string> scenario_of_plan(const Scenario& scenario,
                                                            const PlanningTask& task, PipelinePlan plan);

/// Plans `scenario` on all devices of its cluster, and ignores its schedule. Fails if the model does not
/// consist of layers, if the cluster has no number of devices, or if plan_pipeline() fails.
tl::expected<PlannedScenario, std::string> plan_scenario(const Scenario& scenario,
                                                         const PlanOptions& options);

/// Returns the scenario with its layers in the order of the plan's stages and a cut after each stage. The
/// schedule is unchanged.
Scenario cut_by_plan(const Scenario& scenario, const PipelinePlan& plan);

/// Returns the plan with the layer times of `truth` and unchanged stages. It is used to find the true period
/// of a plan that was made from a noisy profile. Except for the times, `truth` must equal the planned
/// scenario.
tl::expected<PlannedScenario, std::string> with_times_of(PlannedScenario planned, const Scenario& truth);

// Applies `partition: pipedream` to a scenario with any schedule.

/// Returns `scenario` with `partition: pipedream` replaced by the cuts of a plan. Other scenarios are
/// returned unchanged. For a 1f1b-rr schedule of one stage without replicas, the plan also chooses the stages
/// and replicas. For any other schedule, the plan has the schedule's number of stages, with one device for
/// each. Fails if plan_scenario() fails, or if the scenario states replicas together with `partition:
/// pipedream`.
tl::expected<Scenario, std::string> with_planned_partition(const Scenario& scenario);

}  // namespace penstock
