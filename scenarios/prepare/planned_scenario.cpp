// A plan is a list of stages with layers and devices. To run it, three things are put in its order: layers
// are listed stage by stage with a cut between stages, replicas become 1F1B-RR's list of counts, and the
// cluster's devices are numbered as the ranks are (a plan counts devices component by component, a cluster as
// it pleases).
//
//   profile + cluster -> levels of bandwidth -> plan (partition/pipedream) -> scenario of 1f1b-rr

#include "scenarios/prepare/planned_scenario.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/cluster_levels.hpp"
#include "scenarios/partition/merged_branches.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/prepare/scaling.hpp"
#include "scenarios/prepare/stage_costs.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr Bytes kUnlimitedMemory = std::numeric_limits<Bytes>::max();

// --- the cluster ----------------------------------------------------------------------------------------

using Levels = tl::expected<std::vector<BandwidthLevel>, std::string>;

struct LevelsOf {
  Levels operator()(const UniformCluster& shape) const {
    if (shape.devices == 0) {
      return tl::unexpected(
          std::string("cluster.devices is missing: expected the number of devices to plan for, got nothing"));
    }
    return std::vector<BandwidthLevel>{{shape.devices, shape.bytes_per_second}};
  }
  Levels operator()(const TwoLevelCluster& shape) const {
    std::vector<BandwidthLevel> levels;
    if (shape.devices_per_node > 1) levels.push_back({shape.devices_per_node, shape.intra_bytes_per_second});
    if (shape.nodes > 1 || levels.empty()) levels.push_back({shape.nodes, shape.inter_bytes_per_second});
    return levels;
  }
  Levels operator()(const Cluster& cluster) const { return cluster_levels(cluster).levels; }
};

/// The memory of the smallest device; nothing when all are unlimited.
struct LeastMemory {
  std::optional<Bytes> operator()(const UniformCluster& shape) const { return shape.memory_bytes; }
  std::optional<Bytes> operator()(const TwoLevelCluster& shape) const { return shape.memory_bytes; }
  std::optional<Bytes> operator()(const Cluster& cluster) const {
    std::optional<Bytes> least;
    for (const Device& device : cluster.devices()) {
      if (device.memory_bytes) least = std::min(least.value_or(kUnlimitedMemory), *device.memory_bytes);
    }
    return least;
  }
};

PlanOptions with_memory_of(PlanOptions options, const ClusterSpec& cluster) {
  if (!options.memory_limit) options.memory_limit = std::visit(LeastMemory{}, cluster.shape);
  if (options.memory_limit == kUnlimitedMemory) options.memory_limit.reset();
  return options;
}

/// A plan counts devices component by component; of a cluster given link by link these may be any.
PipelinePlan with_devices_of(PipelinePlan plan, const ClusterSpec& spec) {
  const auto* cluster = std::get_if<Cluster>(&spec.shape);
  if (cluster == nullptr) return plan;
  const std::vector<std::int32_t> devices = cluster_levels(*cluster).devices;
  for (PlannedStage& stage : plan.stages) {
    for (std::int32_t& device : stage.devices) device = devices[static_cast<std::size_t>(device)];
  }
  return plan;
}

/// The devices of the plan's ranks; those without a rank come last.
std::vector<std::int32_t> devices_in_rank_order(const PipelinePlan& plan, std::int32_t devices) {
  std::vector<std::int32_t> order;
  for (const PlannedStage& stage : plan.stages)
    order.insert(order.end(), stage.devices.begin(), stage.devices.end());
  for (std::int32_t device = 0; device < devices; ++device) {
    if (std::ranges::find(order, device) == order.end()) order.push_back(device);
  }
  return order;
}

/// Numbers the cluster's devices as the plan's ranks.
struct InRankOrder {
  const PipelinePlan& plan;

  using Shape = decltype(ClusterSpec::shape);
  using Ordered = tl::expected<Shape, std::string>;

  Ordered operator()(const UniformCluster& shape) const { return Shape(shape); }
  Ordered operator()(TwoLevelCluster shape) const {
    std::vector<std::int32_t> order = devices_in_rank_order(plan, shape.nodes * shape.devices_per_node);
    // A stated order is replaced: the plan counts devices server by server.
    if (std::ranges::is_sorted(order)) order.clear();
    shape.device_order = std::move(order);
    return Shape(std::move(shape));
  }
  Ordered operator()(const Cluster& cluster) const {
    const std::vector<std::int32_t> order = devices_in_rank_order(plan, cluster.device_count());
    if (std::ranges::is_sorted(order)) return Shape(cluster);
    auto ordered = in_device_order(cluster, order);
    if (!ordered) return tl::unexpected(ordered.error());
    return Shape(*std::move(ordered));
  }
};

// --- the model ------------------------------------------------------------------------------------------

tl::expected<LayerGraph, std::string> scaled(LayerGraph graph, Scaling scaling) {
  Scaler scale(scaling);
  for (Layer& layer : graph.layers) {
    layer.forward_ns = scale(layer.forward_ns);
    layer.backward_ns = scale(layer.backward_ns);
    layer.output = scale(layer.output);
    if (layer.kept) layer.kept = scale(*layer.kept);
    layer.transient = scale(layer.transient);
  }
  if (!scale.overflowed()) return graph;
  return tl::unexpected(scale.overflow());
}

/// The layers in the order of the plan's stages, which is an order in which they can run.
LayerGraph in_plan_order(const LayerGraph& graph, const PipelinePlan& plan) {
  LayerGraph ordered;
  ordered.overhead_ns = graph.overhead_ns;
  std::vector<std::int32_t> place(graph.layers.size());
  for (const PlannedStage& stage : plan.stages) {
    for (const std::int32_t layer : stage.layers) {
      place[static_cast<std::size_t>(layer)] = static_cast<std::int32_t>(ordered.layers.size());
      ordered.layers.push_back(graph.layers[static_cast<std::size_t>(layer)]);
    }
  }
  for (Layer& layer : ordered.layers) {
    for (std::int32_t& input : layer.inputs) input = place[static_cast<std::size_t>(input)];
    std::ranges::sort(layer.inputs);
  }
  return ordered;
}

std::vector<std::int32_t> cuts_of(const PipelinePlan& plan) {
  std::vector<std::int32_t> cuts;
  std::int32_t layers = 0;
  for (const PlannedStage& stage : plan.stages) {
    layers += static_cast<std::int32_t>(stage.layers.size());
    cuts.push_back(layers);
  }
  cuts.pop_back();
  return cuts;
}

// --- the scenario ---------------------------------------------------------------------------------------

MicrobatchMeaning meaning_of(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  return schedule == nullptr || schedule->asynchronous ? MicrobatchMeaning::whole_minibatch
                                                       : MicrobatchMeaning::part_of_minibatch;
}

using Planned = tl::expected<PlannedScenario, std::string>;

/// The scenario's layers for its microbatch over the levels.
tl::expected<PlanningTask, std::string> task_over(const Scenario& scenario,
                                                  std::vector<BandwidthLevel> levels,
                                                  const PlanOptions& options) {
  const auto* graph = std::get_if<LayerGraph>(&scenario.model);
  if (graph == nullptr) {
    return tl::unexpected(std::string(
        "a plan needs a model of layers: expected model.layers or model.profile, got one stage by stage"));
  }
  const auto size = micro_batch_size_of(scenario.batch, meaning_of(scenario));
  if (!size) {
    return tl::unexpected(std::string(
        "training.micro_batch_size is missing: expected the samples of one minibatch of a replica"));
  }
  auto layers = scaled(*graph, {.own = scenario.batch.own_micro_batch_size, .wanted = *size});
  if (!layers) return tl::unexpected(layers.error());
  const BytesPerWeightByte beside = bytes_per_weight_byte(scenario.optimizer, scenario.precision);
  return PlanningTask{.layers = *std::move(layers),
                      .minibatch_size = *size,
                      .levels = std::move(levels),
                      .options = with_memory_of(options, scenario.cluster),
                      .state_bytes_per_weight_byte = beside.optimizer_state + beside.gradients - 1};
}

/// The plan of the task; the scenario is left as it is.
Planned plan_over(const Scenario& scenario, const PlanningTask& task) {
  auto plan = plan_pipeline(task.layers, task.levels, task.options, task.state_bytes_per_weight_byte);
  if (!plan) return tl::unexpected(plan.error());
  return PlannedScenario{.plan = *std::move(plan),
                         .minibatch_size = task.minibatch_size,
                         .levels = task.levels,
                         .objective = task.options.objective,
                         .memory_limit = task.options.memory_limit,
                         .scenario = scenario};
}

/// Minibatches that every stage's replicas share evenly, and enough of them to fill the pipeline often.
std::int64_t even_minibatches(const PipelinePlan& plan) {
  std::int64_t multiple = 1;
  std::int64_t devices = 0;
  for (const PlannedStage& stage : plan.stages) {
    const std::int64_t replicas = std::ssize(stage.devices);
    multiple = std::lcm(multiple, replicas);
    devices += replicas;
  }
  const std::int64_t wanted = std::max<std::int64_t>(32, 4 * devices);
  return (wanted + multiple - 1) / multiple * multiple;
}

void adopt_layers(Scenario& scenario, const PipelinePlan& plan) {
  scenario.model = in_plan_order(std::get<LayerGraph>(scenario.model), plan);
  scenario.partition = {.rule = Partition::Rule::cuts, .cuts = cuts_of(plan)};
  scenario.shape.stages = static_cast<std::int32_t>(plan.stages.size());
}

/// False for a cluster given link by link whose groups are mixed up.
bool is_numbered_by_component(const ClusterSpec& spec) {
  const auto* cluster = std::get_if<Cluster>(&spec.shape);
  return cluster == nullptr || std::ranges::is_sorted(cluster_levels(*cluster).devices);
}

/// One device a stage of the model, as fast to reach as the cluster's devices are.
tl::expected<std::vector<BandwidthLevel>, std::string> straight_levels(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  const std::int32_t chunks = schedule == nullptr ? 1 : chunks_of(*schedule, scenario.shape);
  ClusterSpec cluster = scenario.cluster;
  if (auto* uniform = std::get_if<UniformCluster>(&cluster.shape)) uniform->devices = scenario.shape.stages;
  auto levels = bandwidth_levels(cluster);
  if (!levels) return levels;
  const bool fit_the_lowest =
      scenario.shape.stages <= levels->front().components && is_numbered_by_component(cluster);
  const double bandwidth = (fit_the_lowest ? levels->front() : levels->back()).bytes_per_second;
  return std::vector<BandwidthLevel>{{scenario.shape.stages * chunks, bandwidth}};
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
  if (!options.memory_limit) options.memory_limit = kUnlimitedMemory;
  const auto task = task_over(scenario, *levels, options);
  if (!task) return tl::unexpected(task.error());
  auto planned = plan_over(scenario, *task);
  if (!planned) return tl::unexpected(planned.error());
  const std::int32_t wanted = levels->front().components;
  const auto most = static_cast<std::int32_t>(planned->plan.stages.size());
  if (most != wanted) {
    return tl::unexpected(fmt::format(
        "a straight plan of the model has at most {} stages, too few for {}; take at most {} stages", most,
        wanted, most));
  }
  Scenario cut = planned->scenario;
  adopt_layers(cut, planned->plan);
  cut.shape.stages = scenario.shape.stages;
  return cut;
}

}  // namespace

tl::expected<std::vector<BandwidthLevel>, std::string> bandwidth_levels(const ClusterSpec& cluster) {
  return std::visit(LevelsOf{}, cluster.shape);
}

Scenario with_merged_branches(Scenario scenario) {
  const auto* graph = std::get_if<LayerGraph>(&scenario.model);
  if (graph == nullptr || can_be_planned_over(*graph)) return scenario;
  MergedGraph merged = merged_branches(*graph);
  scenario.notes.push_back(fmt::format(
      "the model's {} layers branch too widely to be planned one by one: parallel branches are merged, "
      "which leaves {} layers to cut between",
      graph->layers.size(), merged.graph.layers.size()));
  scenario.model = std::move(merged.graph);
  return scenario;
}

tl::expected<PlanningTask, std::string> planning_task(const Scenario& scenario, const PlanOptions& options) {
  auto levels = bandwidth_levels(scenario.cluster);
  if (!levels) return tl::unexpected(levels.error());
  return task_over(scenario, *std::move(levels), options);
}

tl::expected<PlannedScenario, std::string> plan_scenario(const Scenario& scenario,
                                                         const PlanOptions& options) {
  const auto task = planning_task(scenario, options);
  if (!task) return tl::unexpected(task.error());
  auto planned = plan_over(scenario, *task);
  if (!planned) return planned;
  return scenario_of_plan(scenario, *task, std::move(planned->plan));
}

tl::expected<PlannedScenario, std::string> scenario_of_plan(const Scenario& scenario,
                                                            const PlanningTask& task, PipelinePlan plan) {
  PlannedScenario planned{.plan = with_devices_of(std::move(plan), scenario.cluster),
                          .minibatch_size = task.minibatch_size,
                          .levels = task.levels,
                          .objective = task.options.objective,
                          .memory_limit = task.options.memory_limit,
                          .scenario = scenario};
  Scenario& result = planned.scenario;
  adopt_layers(result, planned.plan);
  result.schedule = "1f1b-rr";
  result.program.reset();
  // Buckets by stage were those of other stages.
  std::vector<std::int32_t> buckets = result.shape.buckets;
  if (buckets.size() > 1) buckets.clear();
  result.shape = {.stages = result.shape.stages, .routing = Routing::global, .buckets = std::move(buckets)};
  for (const PlannedStage& stage : planned.plan.stages)
    result.shape.replicas.push_back(static_cast<std::int32_t>(stage.devices.size()));
  result.batch.micro_batch_size = planned.minibatch_size;
  result.batch.global_batch_size.reset();
  result.batch.microbatches = even_minibatches(planned.plan);
  auto ordered = std::visit(InRankOrder{planned.plan}, scenario.cluster.shape);
  if (!ordered) return tl::unexpected(ordered.error());
  if (*ordered != result.cluster.shape) result.cluster.built.reset();
  result.cluster.shape = *std::move(ordered);
  if (const auto* cluster = std::get_if<Cluster>(&scenario.cluster.shape))
    result.notes.push_back(to_text(cluster_levels(*cluster)));
  return planned;
}

tl::expected<PlannedScenario, std::string> with_times_of(PlannedScenario planned, const Scenario& truth) {
  const auto& graph = std::get<LayerGraph>(truth.model);
  const auto layers =
      scaled(graph, {.own = truth.batch.own_micro_batch_size, .wanted = planned.minibatch_size});
  if (!layers) return tl::unexpected(layers.error());
  for (PlannedStage& stage : planned.plan.stages) {
    stage.compute_ns = 2 * graph.overhead_ns;
    for (const std::int32_t index : stage.layers) {
      const Layer& layer = layers->layers[static_cast<std::size_t>(index)];
      stage.compute_ns += layer.forward_ns + layer.backward_ns;
    }
  }
  planned.plan.period_ns = recurrence_period_ns(planned.plan, planned.objective);
  planned.scenario.model = in_plan_order(graph, planned.plan);
  return planned;
}

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
