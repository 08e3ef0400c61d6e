#pragma once
// PipeDream's partitioner applied to a scenario: from its model and cluster to the 1F1B-RR scenario that runs
// the plan. Used by `penstock plan`, and by experiment.cpp for `partition: pipedream`.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A plan and the scenario that runs it.
struct PlannedScenario {
  PipelinePlan plan;                ///< layers are those of the scenario that was planned
  std::int64_t minibatch_size = 1;  ///< samples of one minibatch, which each replica runs whole
  std::vector<BandwidthLevel> levels;
  PlanObjective objective = PlanObjective::maximum;
  std::optional<Bytes> memory_limit;  ///< that was kept
  /// Schedule 1f1b-rr with the plan's stages and replicas; layers in the order of the stages, cut between
  /// them; the cluster's devices in the order of the ranks.
  Scenario scenario;
};

/// The scenario with the parallel branches of its layers merged where they have too many downsets to be
/// planned over, and a note that says so; others as they are.
Scenario with_merged_branches(Scenario scenario);

/// What all plans of a scenario share.
struct PlanningTask {
  LayerGraph layers;  ///< with the times and bytes of the minibatch
  std::int64_t minibatch_size = 1;
  std::vector<BandwidthLevel> levels;
  PlanOptions options;  ///< with the devices' memory, where no limit is stated
  std::int64_t state_bytes_per_weight_byte = 0;
};

/// Errors: those of plan_scenario() but for plan_pipeline()'s.
tl::expected<PlanningTask, std::string> planning_task(const Scenario& scenario, const PlanOptions& options);

/// The scenario that runs `plan`, a plan of the task whose devices are numbered component by component.
tl::expected<PlannedScenario, std::string> scenario_of_plan(const Scenario& scenario,
                                                            const PlanningTask& task, PipelinePlan plan);

/// Plans `scenario` on all devices of its cluster, whatever its schedule is. Errors: a model that is not
/// layers, a cluster without a number of devices, those of plan_pipeline().
tl::expected<PlannedScenario, std::string> plan_scenario(const Scenario& scenario,
                                                         const PlanOptions& options);

/// The same plan for `truth`, which differs from the scenario that was planned in its layers' times alone:
/// what a plan made from a noisy profile really is. The period is the recurrence's for the plan as it is.
tl::expected<PlannedScenario, std::string> with_times_of(PlannedScenario planned, const Scenario& truth);

/// `scenario` with `partition: pipedream` replaced by the plan's cuts; others as they are. A 1f1b-rr schedule
/// of one stage without replicas is left to the plan (plan_scenario() with its own number of minibatches);
/// any other schedule is cut into its own number of stages by a straight plan, a device a stage. Errors:
/// those of plan_scenario(); replicas beside `partition: pipedream`.
tl::expected<Scenario, std::string> with_planned_partition(const Scenario& scenario);

/// The levels of bandwidth of a cluster, from the lowest to the highest; those of one component are left out
/// unless no other is there. Of a cluster given link by link those of cluster_levels(). Error: a uniform
/// cluster without a number of devices.
tl::expected<std::vector<BandwidthLevel>, std::string> bandwidth_levels(const ClusterSpec& cluster);

}  // namespace penstock
