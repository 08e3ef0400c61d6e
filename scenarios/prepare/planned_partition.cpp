// Two ways, by how much the scenario leaves open:
//
//   1f1b-rr of one stage     stages, replicas and cuts are the plan's
//   K stages of a schedule   a straight plan: K stages, a device each, over the links that join them

#include "scenarios/prepare/planned_partition.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/cluster_levels.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/prepare/planning_task.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

/// One device a stage of the model, as fast to reach as the cluster's devices are.
tl::expected<ClusterLevels, std::string> straight_levels(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  const std::int32_t chunks = schedule == nullptr ? 1 : chunks_of(*schedule, scenario.shape);
  ClusterSpec cluster = scenario.cluster;
  if (auto* uniform = std::get_if<UniformCluster>(&cluster.shape)) uniform->devices = scenario.shape.stages;
  auto known = levels_of(cluster);
  if (!known) return known;
  const bool fit_the_lowest =
      scenario.shape.stages <= known->levels.front().components && std::ranges::is_sorted(known->devices);
  const BandwidthLevel& level = fit_the_lowest ? known->levels.front() : known->levels.back();
  return ClusterLevels{.levels = {{scenario.shape.stages * chunks, level.bytes_per_second}}, .devices = {}};
}

bool plan_decides_all(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  return schedule != nullptr && schedule->generate == one_f_one_b_rr && scenario.shape.stages == 1;
}

tl::expected<Scenario, std::string> cut_straight(const Scenario& scenario) {
  const auto levels = straight_levels(scenario);
  if (!levels) return tl::unexpected(levels.error());
  PlanOptions options = scenario.partition.plan;
  options.form = PlanForm::straight;
  // What is in flight on a stage depends on the schedule, which need not be 1F1B: only a stated limit counts.
  if (!options.memory_limit) options.memory_limit = std::numeric_limits<Bytes>::max();
  const auto task = planning_task_over(scenario, *levels, options);
  if (!task) return tl::unexpected(task.error());
  const auto plan =
      plan_pipeline(task->layers, task->levels, task->options, task->state_bytes_per_weight_byte);
  if (!plan) return tl::unexpected(plan.error());
  const std::int32_t wanted = levels->levels.front().components;
  const auto most = static_cast<std::int32_t>(plan->stages.size());
  if (most != wanted) {
    return tl::unexpected(fmt::format(
        "a straight plan of the model has at most {} stages, too few for {}; take at most {} stages", most,
        wanted, most));
  }
  Scenario cut = scenario;
  adopt_layers(cut, *plan);
  cut.shape.stages = scenario.shape.stages;
  return cut;
}

}  // namespace

tl::expected<Scenario, std::string> with_planned_partition(const Scenario& stated) {
  const bool is_planned =
      stated.partition.rule == Partition::Rule::pipedream && std::holds_alternative<LayerGraph>(stated.model);
  if (!is_planned) return stated;
  const Scenario scenario = with_merged_branches(stated);
  if (!scenario.shape.replicas.empty()) {
    return tl::unexpected(std::string(
        "schedule.replicas: partition: pipedream chooses the replicas; leave the key out, or give cuts"));
  }
  if (!plan_decides_all(scenario)) return cut_straight(scenario);
  auto planned = plan_scenario(scenario, scenario.partition.plan);
  if (!planned) return tl::unexpected(planned.error());
  Scenario result = std::move(planned->scenario);
  Shape shape = scenario.shape;
  shape.stages = result.shape.stages;
  shape.replicas = result.shape.replicas;
  shape.routing = Routing::global;
  result.shape = std::move(shape);
  result.batch = scenario.batch;
  return result;
}

}  // namespace penstock
