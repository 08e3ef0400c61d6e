#pragma once
// PipeDream's partitioner applied to a scenario: from its model and cluster to the 1F1B-RR scenario that runs
// the plan. Used by `penstock plan`, and by planned_partition.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/prepare/planning_task.hpp"
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

/// After how many minibatches the replicas of all stages are at the same place of their turns again: the
/// least common multiple of their numbers. Error: it is beyond 2^31, which names them.
tl::expected<std::int64_t, std::string> turn_of_all_replicas(const PipelinePlan& plan);

/// The scenario with `plan`, a plan of the task whose devices are numbered component by component; its batch
/// stays. Error: devices that cannot be put in the plan's order.
tl::expected<PlannedScenario, std::string> with_plan(const Scenario& scenario, const PlanningTask& task,
                                                     PipelinePlan plan);

/// The scenario that runs `plan`, with minibatches that all replicas share evenly. Errors: those of
/// with_plan() and turn_of_all_replicas().
tl::expected<PlannedScenario, std::string> scenario_of_plan(const Scenario& scenario,
                                                            const PlanningTask& task, PipelinePlan plan);

/// Plans `scenario` on all devices of its cluster, whatever its schedule is. Errors: a model that is not
/// layers, a cluster without a number of devices, those of plan_pipeline().
tl::expected<PlannedScenario, std::string> plan_scenario(const Scenario& scenario,
                                                         const PlanOptions& options);

/// The scenario with the plan's layers, in the order of its stages, and the cuts between them; its schedule
/// as it is.
Scenario cut_by_plan(const Scenario& scenario, const PipelinePlan& plan);

/// The same plan for `truth`, which differs from the scenario that was planned in its layers' times alone:
/// what a plan made from a noisy profile really is. The period is the recurrence's for the plan as it is.
tl::expected<PlannedScenario, std::string> with_times_of(PlannedScenario planned, const Scenario& truth);

}  // namespace penstock
