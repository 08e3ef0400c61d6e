// Applies a plan in one of two forms, which depends on the schedule:
//
//   1f1b-rr of one stage     stages, replicas and cuts are the plan's
//   K stages of a schedule   a straight plan: K stages with one device each, over the links between them

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

/// Returns one level with one device for each stage of the model, and a bandwidth of the cluster.
tl::expected<ClusterLevels, std::string> straight_levels(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  const std::int32_t chunks = schedule == nullptr ? 1 : chunks_of(*schedule, scenario.shape);
  ClusterSpec cluster = scenario.cluster;
  // The schedule decides the number of devices, even if the cluster states another number or none.
  if (auto* uniform = std::get_if<UniformCluster>(&cluster.shape)) uniform->devices = scenario.shape.stages;
  auto known = levels_of(cluster);
  if (!known) return known;
  // All cuts use one bandwidth. If all ranks fit in one server and are numbered in order, it is the bandwidth
  // inside a server. Otherwise it is the bandwidth between servers.
  const bool fit_the_lowest =
      scenario.shape.stages <= known->levels.front().components && std::ranges::is_sorted(known->devices);
  const BandwidthLevel& level = fit_the_lowest ? known->levels.front() : known->levels.back();
  return ClusterLevels{.levels = {{scenario.shape.stages * chunks, level.bytes_per_second}}, .devices = {}};
}

bool plan_decides_all(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  return schedule != nullptr && schedule->generate == one_f_one_b_rr && scenario.shape.stages == 1;
}

/// Returns options for a straight plan. Memory counts only if a limit is stated, because the schedule need
/// not be 1F1B and its microbatches in flight are unknown.
PlanOptions straight_options(PlanOptions options) {
  options.form = PlanForm::straight;
  // Without this value, planning_task.cpp would use the memory of the devices.
  if (!options.memory_limit) options.memory_limit = std::numeric_limits<Bytes>::max();
  return options;
}

}  // namespace

tl::expected<Scenario, std::string> with_planned_partition(const Scenario& stated) {
  const bool is_planned =
      stated.partition.rule == Partition::Rule::pipedream && std::holds_alternative<LayerGraph>(stated.model);
  if (!is_planned) return stated;
  if (!stated.shape.replicas.empty()) {
    return tl::unexpected(std::string(
        "schedule.replicas: partition: pipedream chooses the replicas; leave the key out, or give cuts"));
  }
  const bool decides_all = plan_decides_all(stated);
  const PlanOptions& own = stated.partition.plan;
  const PlanOptions options = decides_all ? own : straight_options(own);
  auto levels = decides_all ? levels_of(stated.cluster) : straight_levels(stated);
  if (!levels) return tl::unexpected(levels.error());
  const std::int32_t wanted = levels->levels.front().components;
  const Scenario scenario = with_merged_branches(stated);
  const auto task = planning_task_over(scenario, *std::move(levels), options);
  if (!task) return tl::unexpected(task.error());
  auto plan = plan_pipeline(task->layers, task->levels, task->options, task->state_bytes_per_weight_byte);
  if (!plan) return tl::unexpected(plan.error());
  if (!decides_all) {
    // A straight plan has fewer stages than wanted if the model has too few layers or cuts.
    const auto most = static_cast<std::int32_t>(plan->stages.size());
    if (most == wanted) return cut_by_plan(scenario, *plan);
    return tl::unexpected(fmt::format(
        "a straight plan of the model has at most {} stages, too few for {}; take at most {} stages", most,
        wanted, most));
  }
  return with_plan(scenario, *task, *std::move(plan)).map([&](PlannedScenario&& planned) {
    // Only stages and replicas come from the plan. The rest of the schedule and the batch come from the
    // scenario.
    Scenario result = std::move(planned.scenario);
    Shape shape = scenario.shape;
    shape.stages = result.shape.stages;
    shape.replicas = result.shape.replicas;
    shape.routing = Routing::global;
    result.shape = std::move(shape);
    return result;
  });
}

}  // namespace penstock
