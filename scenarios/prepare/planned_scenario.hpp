#pragma once
// Applies PipeDream's partitioner to a scenario and builds the 1F1B-RR scenario that runs the plan. Used by
// `penstock plan`, and by planned_partition.cpp.

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
  PipelinePlan plan;                ///< its layer numbers refer to the planned scenario
  std::int64_t minibatch_size = 1;  ///< the samples of one minibatch, which one replica runs alone
  std::vector<BandwidthLevel> levels;
  PlanObjective objective = PlanObjective::maximum;
  std::optional<Bytes> memory_limit;  ///< the memory limit that the plan respects
  /// The scenario with schedule 1f1b-rr and the plan's stages and replicas. Its layers are in the order of
  /// the stages, with a cut after each stage. The cluster's devices are in the order of the ranks.
  Scenario scenario;
};

/// Returns the number of minibatches after which the replica assignment of all stages repeats. It is the
/// least common multiple of the replica counts. Error: more than 2^31; the message names the counts.
tl::expected<std::int64_t, std::string> turn_of_all_replicas(const PipelinePlan& plan);

/// Returns the scenario with `plan`, and leaves its batch unchanged. `plan` is a plan of the task and numbers
/// devices component by component. Error: devices that cannot be put in the plan's order.
tl::expected<PlannedScenario, std::string> with_plan(const Scenario& scenario, const PlanningTask& task,
                                                     PipelinePlan plan);

/// Returns the scenario that runs `plan`. The number of minibatches is such that all replicas of a stage run
/// equally many. Errors: the errors of with_plan() and turn_of_all_replicas().
tl::expected<PlannedScenario, std::string> scenario_of_plan(const Scenario& scenario,
                                                            const PlanningTask& task, PipelinePlan plan);

/// Plans `scenario` on all devices of its cluster, and ignores its schedule. Errors: a model that does not
/// consist of layers, a cluster without a number of devices, and the errors of plan_pipeline().
tl::expected<PlannedScenario, std::string> plan_scenario(const Scenario& scenario,
                                                         const PlanOptions& options);

/// Returns the scenario with its layers in the order of the plan's stages and a cut after each stage. The
/// schedule is unchanged.
Scenario cut_by_plan(const Scenario& scenario, const PipelinePlan& plan);

/// Returns the plan with the layer times of `truth`, which otherwise equals the planned scenario. It shows
/// the true period of a plan that was made from a noisy profile. The period follows from the recurrence, and
/// the stages do not change.
tl::expected<PlannedScenario, std::string> with_times_of(PlannedScenario planned, const Scenario& truth);

}  // namespace penstock
