// Makes a scenario that runs a plan. A plan is a list of stages with layers and devices. The scenario
// lists the layers stage by stage, with a cut after each stage. It states the number of replicas of each
// stage for 1F1B-RR. It also puts the cluster's devices in the order of the ranks.
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
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/prepare/model_stages.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/return_if_error.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

/// Returns the plan with the device numbers that the cluster uses. The planner numbers devices by the
/// components of the bandwidth levels, but a cluster that states single links may number them differently.
PipelinePlan with_devices(PipelinePlan plan, const std::vector<std::int32_t>& devices) {
  if (devices.empty()) return plan;
  for (PlannedStage& stage : plan.stages) {
    for (std::int32_t& device : stage.devices) device = devices[static_cast<std::size_t>(device)];
  }
  return plan;
}

/// Returns the devices in the order of the plan's ranks. Devices without a rank come last.
std::vector<std::int32_t> devices_in_rank_order(const PipelinePlan& plan, std::int32_t devices) {
  std::vector<std::int32_t> order;
  for (const PlannedStage& stage : plan.stages)
    order.insert(order.end(), stage.devices.begin(), stage.devices.end());
  for (std::int32_t device = 0; device < devices; ++device) {
    if (std::ranges::find(order, device) == order.end()) order.push_back(device);
  }
  return order;
}

/// A visitor that numbers the cluster's devices in the order of the plan's ranks.
struct InRankOrder {
  const PipelinePlan& plan;

  using Shape = decltype(ClusterSpec::shape);
  using Ordered = tl::expected<Shape, std::string>;

  Ordered operator()(const UniformCluster& shape) const { return Shape(shape); }
  Ordered operator()(TwoLevelCluster shape) const {
    std::vector<std::int32_t> order = devices_in_rank_order(plan, shape.nodes * shape.devices_per_node);
    // The new order replaces a stated one, because the plan counts devices server by server.
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

/// Returns the layers in the order of the plan's stages. In this order, each layer comes after its inputs.
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

/// Returns the number of layers before each cut, in the plan's order. There is no cut after the last stage.
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

/// Returns a number of minibatches that is a multiple of the replica count of every stage. It is large enough
/// to fill the pipeline several times.
tl::expected<std::int64_t, std::string> even_minibatches(const PipelinePlan& plan) {
  auto turn = turn_of_all_replicas(plan);
  if (!turn) return turn;
  std::int64_t devices = 0;
  for (const PlannedStage& stage : plan.stages) devices += std::ssize(stage.devices);
  // With this number, a pipeline without replicas is filled at least four times.
  const std::int64_t wanted = std::max<std::int64_t>(32, 4 * devices);
  return (wanted + *turn - 1) / *turn * *turn;
}

/// Replaces the scenario's model by the layers in the plan's order, and its partition by the plan's cuts.
void adopt_layers(Scenario& scenario, const PipelinePlan& plan) {
  scenario.model = in_plan_order(std::get<LayerGraph>(scenario.model), plan);
  scenario.partition = {.rule = Partition::Rule::cuts, .cuts = cuts_of(plan)};
  scenario.shape.stages = static_cast<std::int32_t>(plan.stages.size());
}

}  // namespace

PipelinePlan with_flush_of(PipelinePlan plan, const PlanningTask& task) {
  if (task.microbatches == 0) return plan;
  for (PlannedStage& stage : plan.stages) {
    const auto replicas = static_cast<std::int32_t>(stage.devices.size());
    stage.reduction_ns *= static_cast<double>(replicas) / task.microbatches;
    const std::int32_t share = task.microbatches / replicas + (task.microbatches % replicas > 0 ? 1 : 0);
    stage.in_flight = std::min(stage.in_flight, share);
    // A device stores weights, gradients of the same size, the optimizer's state, and activations.
    stage.held = stage.weights * (2 + task.state_bytes_per_weight_byte);
    for (const std::int32_t layer : stage.layers)
      stage.held += task.layers.layers[static_cast<std::size_t>(layer)].kept_bytes() * stage.in_flight;
  }
  plan.period_ns = recurrence_period_ns(plan, task.options.objective);
  return plan;
}

tl::expected<std::int64_t, std::string> turn_of_all_replicas(const PipelinePlan& plan) {
  std::int64_t turn = 1;
  for (const PlannedStage& stage : plan.stages) {
    // Because the result is checked after each stage, both arguments are below 2^31, and lcm() cannot exceed
    // 64 bits.
    turn = std::lcm(turn, std::max<std::int64_t>(std::ssize(stage.devices), 1));
    if (turn <= std::numeric_limits<std::int32_t>::max()) continue;
    std::vector<std::size_t> replicas;
    replicas.reserve(plan.stages.size());
    for (const PlannedStage& one : plan.stages) replicas.push_back(one.devices.size());
    return tl::unexpected(fmt::format(
        "stages of {} replicas share minibatches evenly only by multiples of more than 2147483647; "
        "take fewer devices, or --straight",
        fmt::join(replicas, ", ")));
  }
  return turn;
}

tl::expected<PlannedScenario, std::string> plan_scenario(const Scenario& scenario,
                                                         const PlanOptions& options) {
  const auto task = planning_task(scenario, options);
  if (!task) return tl::unexpected(task.error());
  auto plan = plan_pipeline(task->layers, task->levels, task->options, task->state_bytes_per_weight_byte);
  if (!plan) return tl::unexpected(plan.error());
  return scenario_of_plan(scenario, *task, *std::move(plan));
}

tl::expected<PlannedScenario, std::string> with_plan(const Scenario& scenario, const PlanningTask& task,
                                                     PipelinePlan plan) {
  PlannedScenario planned{.plan = with_devices(std::move(plan), task.devices),
                          .minibatch_size = task.minibatch_size,
                          .microbatches = task.microbatches,
                          .levels = task.levels,
                          .objective = task.options.objective,
                          .memory_limit = task.options.memory_limit,
                          .scenario = scenario};
  Scenario& result = planned.scenario;
  adopt_layers(result, planned.plan);
  const bool has_flush = task.microbatches > 0;
  result.schedule = has_flush ? "1f1b" : "1f1b-rr";
  result.program.reset();
  // A list with one bucket count for each stage refers to the stages before planning, so it no longer fits
  // and is removed.
  std::vector<std::int32_t> buckets = result.shape.buckets;
  if (buckets.size() > 1) buckets.clear();
  // With a flush, the next minibatch begins when all stages have updated their weights.
  result.shape = {.stages = result.shape.stages,
                  .barrier = has_flush,
                  .routing = has_flush ? Shape{}.routing : Routing::global,
                  .buckets = std::move(buckets)};
  for (const PlannedStage& stage : planned.plan.stages)
    result.shape.replicas.push_back(static_cast<std::int32_t>(stage.devices.size()));
  auto ordered = std::visit(InRankOrder{planned.plan}, scenario.cluster.shape);
  if (!ordered) return tl::unexpected(ordered.error());
  if (*ordered != result.cluster.shape) result.cluster.built.reset();
  result.cluster.shape = *std::move(ordered);
  if (!task.devices.empty())
    result.notes.push_back(to_text(ClusterLevels{.levels = task.levels, .devices = task.devices}));
  return planned;
}

tl::expected<PlannedScenario, std::string> scenario_of_plan(const Scenario& scenario,
                                                            const PlanningTask& task, PipelinePlan plan) {
  std::int64_t minibatches = task.microbatches;
  if (minibatches == 0) {
    PENSTOCK_ASSIGN_OR_RETURN(minibatches, even_minibatches(plan));
  }
  auto planned = with_plan(scenario, task, std::move(plan));
  if (!planned) return planned;
  Batch& batch = planned->scenario.batch;
  batch.micro_batch_size = planned->minibatch_size;
  batch.global_batch_size.reset();
  batch.microbatches = minibatches;
  return planned;
}

Scenario cut_by_plan(const Scenario& scenario, const PipelinePlan& plan) {
  Scenario cut = scenario;
  adopt_layers(cut, plan);
  cut.shape.stages = scenario.shape.stages;
  return cut;
}

tl::expected<PlannedScenario, std::string> with_times_of(PlannedScenario planned, const Scenario& truth) {
  const auto& graph = std::get<LayerGraph>(truth.model);
  const auto layers =
      scaled_layers(graph, {.own = truth.batch.own_micro_batch_size, .wanted = planned.minibatch_size});
  if (!layers) return tl::unexpected(layers.error());
  for (PlannedStage& stage : planned.plan.stages) {
    // Overhead is added once to the forward and once to the backward pass, and it does not scale.
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

// Prepares the input of partitioners. Layer times and bytes are scaled to one minibatch. The cluster becomes
// a list of bandwidth levels. The memory limit is the memory of the smallest device.

// --- merged layers ---------------------------------------------------------------------------------------
//
// Partitioners visit all downsets of a graph. A graph with many parallel branches has too many downsets. A
// chain of n merged layers has only n + 1 downsets.

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

// --- planning levels -------------------------------------------------------------------------------------
//
// A preset states its levels. If a cluster states single links, cluster_levels() finds the levels.

namespace {

struct LevelsOf {
  tl::expected<ClusterLevels, std::string> operator()(const UniformCluster& shape) const {
    if (shape.devices == 0) {
      return tl::unexpected(
          std::string("cluster.devices is missing: expected the number of devices to plan for, got nothing"));
    }
    return ClusterLevels{.levels = {{shape.devices, shape.bytes_per_second}}, .devices = {}};
  }
  tl::expected<ClusterLevels, std::string> operator()(const TwoLevelCluster& shape) const {
    std::vector<BandwidthLevel> levels;
    if (shape.devices_per_node > 1) levels.push_back({shape.devices_per_node, shape.intra_bytes_per_second});
    if (shape.nodes > 1 || levels.empty()) levels.push_back({shape.nodes, shape.inter_bytes_per_second});
    return ClusterLevels{.levels = std::move(levels), .devices = {}};
  }
  tl::expected<ClusterLevels, std::string> operator()(const Cluster& cluster) const {
    return cluster_levels(cluster);
  }
};

}  // namespace

tl::expected<ClusterLevels, std::string> levels_of(const ClusterSpec& cluster) {
  return std::visit(LevelsOf{}, cluster.shape);
}

// --- planning task ---------------------------------------------------------------------------------------

namespace {

constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();

/// A visitor that returns the usable bytes of the smallest device, or nothing if the memory is unlimited.
struct LeastMemory {
  std::optional<Bytes> operator()(const UniformCluster& shape) const {
    return usable_bytes(shape.memory_bytes, shape.reserved_bytes);
  }
  std::optional<Bytes> operator()(const TwoLevelCluster& shape) const {
    return usable_bytes(shape.memory_bytes, shape.reserved_bytes);
  }
  std::optional<Bytes> operator()(const Cluster& cluster) const {
    std::optional<Bytes> least;
    for (const Device& device : cluster.devices()) {
      const auto usable = usable_bytes(device.memory_bytes, device.reserved_bytes);
      if (usable) least = std::min(least.value_or(kNoLimit), *usable);
    }
    return least;
  }
};

/// Sets the memory limit to the memory of the devices, unless a limit is stated.
void keep_within_devices(PlanOptions& options, const ClusterSpec& cluster) {
  if (!options.memory_limit) options.memory_limit = std::visit(LeastMemory{}, cluster.shape);
  if (options.memory_limit == kNoLimit) options.memory_limit.reset();
}

/// Returns the meaning of a microbatch in the planned schedule: a minibatch or a part of it. A scenario
/// without a known schedule is planned for 1f1b-rr, in which a microbatch is a whole minibatch. In contrast,
/// meaning_of_microbatch() assumes a synchronous schedule for an unknown name.
MicrobatchMeaning meaning_of(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  return schedule == nullptr || schedule->asynchronous ? MicrobatchMeaning::whole_minibatch
                                                       : MicrobatchMeaning::part_of_minibatch;
}

}  // namespace

tl::expected<PlanningTask, std::string> planning_task_over(const Scenario& scenario, ClusterLevels cluster,
                                                           PlanOptions options) {
  keep_within_devices(options, scenario.cluster);
  const bool has_flush = options.update == PlanUpdate::flush;
  const MicrobatchMeaning meaning = has_flush ? MicrobatchMeaning::part_of_minibatch : meaning_of(scenario);
  const auto* graph = std::get_if<LayerGraph>(&scenario.model);
  if (std::holds_alternative<DeviceModel>(scenario.model)) {
    return tl::unexpected(std::string(
        "a plan needs a model of layers: expected model.layers or model.profile, got a model on named "
        "devices; `penstock tune` chooses its stages, copies and layers of each stage, also for "
        "cluster.groups, and `schedule.layer_split: balanced` cuts it for stated stages"));
  }
  if (graph == nullptr) {
    return tl::unexpected(std::string(
        "a plan needs a model of layers: expected model.layers or model.profile, got one stage by stage"));
  }
  if (!graph->device_slowness.empty()) {
    return tl::unexpected(std::string(
        "a plan is for devices with the same `flops`, and those of the cluster differ: the best plan "
        "of the first layers on n devices must not depend on which devices these are; take "
        "`partition: balanced` or a list of cuts, or state cluster.groups and use `penstock "
        "tune`"));
  }
  const auto size = micro_batch_size_of(scenario.batch, meaning);
  if (!size) {
    return tl::unexpected(std::string(
        "training.micro_batch_size is missing: expected the samples of one minibatch of a replica"));
  }
  std::int32_t microbatches = 0;
  if (has_flush) {
    PENSTOCK_ASSIGN_OR_RETURN(const ResolvedBatch batch, resolve_batch(scenario.batch, meaning));
    microbatches = batch.microbatches;
  }
  auto layers = scaled_layers(*graph, {.own = scenario.batch.own_micro_batch_size, .wanted = *size});
  if (!layers) return tl::unexpected(layers.error());
  const BytesPerWeightByte beside = bytes_per_weight_byte(scenario.optimizer, scenario.precision);
  return PlanningTask{.layers = *std::move(layers),
                      .minibatch_size = *size,
                      .microbatches = microbatches,
                      .levels = std::move(cluster.levels),
                      .devices = std::move(cluster.devices),
                      .options = options,
                      // Partitioners already count gradients as large as the weights, so 1 is subtracted.
                      .state_bytes_per_weight_byte = beside.optimizer_state + beside.gradients - 1};
}

tl::expected<PlanningTask, std::string> planning_task(const Scenario& scenario, const PlanOptions& options) {
  auto cluster = levels_of(scenario.cluster);
  if (!cluster) return tl::unexpected(cluster.error());
  return planning_task_over(scenario, *std::move(cluster), options);
}

// Applies a plan in one of two forms. The schedule decides which form is used:
//
//   1f1b-rr of one stage     stages, replicas and cuts are the plan's
//   K stages of a schedule   a straight plan: K stages with one device each, over the links between them

namespace {

/// Returns a single bandwidth level with one device for each stage of the model. Its bandwidth is that of
/// one of the cluster's levels.
tl::expected<ClusterLevels, std::string> straight_levels(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  const std::int32_t chunks = schedule == nullptr ? 1 : chunks_of(*schedule, scenario.shape);
  ClusterSpec cluster = scenario.cluster;
  // The schedule decides the number of devices, even if the cluster states another number or none.
  if (auto* uniform = std::get_if<UniformCluster>(&cluster.shape)) uniform->devices = scenario.shape.stages;
  auto known = levels_of(cluster);
  if (!known) return known;
  // All cuts use the same bandwidth. If all ranks fit in one component of the lowest level (a server) and the
  // devices are in order, it is the bandwidth inside a server. Otherwise it is the bandwidth of the highest
  // level.
  const bool fit_the_lowest =
      scenario.shape.stages <= known->levels.front().components && std::ranges::is_sorted(known->devices);
  const BandwidthLevel& level = fit_the_lowest ? known->levels.front() : known->levels.back();
  return ClusterLevels{.levels = {{scenario.shape.stages * chunks, level.bytes_per_second}}, .devices = {}};
}

bool plan_decides_all(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  return schedule != nullptr && schedule->generate == one_f_one_b_rr && scenario.shape.stages == 1;
}

/// Returns the options for a straight plan. Such a plan respects a memory limit only if the user states
/// one. The number of microbatches in flight is unknown, because the schedule may differ from 1F1B.
PlanOptions straight_options(PlanOptions options) {
  options.form = PlanForm::straight;
  // Without this value, keep_within_devices() would set the limit to the memory of the devices.
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
    // A straight plan has fewer stages than requested if the model has too few layers or cuts.
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
