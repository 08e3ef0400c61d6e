// Prepares the input of partitioners, which do not know samples or names of devices. Layers are scaled to the
// minibatch that one replica runs. The cluster becomes levels of bandwidth, and the smallest device gives the
// memory limit.

#include "scenarios/prepare/planning_task.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/cluster_levels.hpp"
#include "scenarios/partition/layer_graph_downsets.hpp"
#include "scenarios/partition/merged_branches.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/prepare/scaling.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/weight_state.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {

// --- merged layers ---------------------------------------------------------------------------------------
//
// Partitioners go through all downsets of a graph. A graph with many parallel branches has too many downsets,
// but a chain of merged layers has only one more than layers.

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
// A preset states its levels. For a cluster given link by link, partition/cluster_levels.hpp finds them.

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

/// Returns the meaning of a microbatch. A scenario without a known schedule is planned for 1f1b-rr, in which
/// a microbatch is a whole minibatch. In contrast, meaning_of_microbatch() assumes a synchronous schedule for
/// an unknown name.
MicrobatchMeaning meaning_of(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  return schedule == nullptr || schedule->asynchronous ? MicrobatchMeaning::whole_minibatch
                                                       : MicrobatchMeaning::part_of_minibatch;
}

}  // namespace

tl::expected<PlanningTask, std::string> planning_task_over(const Scenario& scenario, ClusterLevels cluster,
                                                           PlanOptions options) {
  keep_within_devices(options, scenario.cluster);
  const MicrobatchMeaning meaning = meaning_of(scenario);
  const auto* graph = std::get_if<LayerGraph>(&scenario.model);
  if (graph == nullptr) {
    return tl::unexpected(std::string(
        "a plan needs a model of layers: expected model.layers or model.profile, got one stage by stage"));
  }
  const auto size = micro_batch_size_of(scenario.batch, meaning);
  if (!size) {
    return tl::unexpected(std::string(
        "training.micro_batch_size is missing: expected the samples of one minibatch of a replica"));
  }
  auto layers = scaled_layers(*graph, {.own = scenario.batch.own_micro_batch_size, .wanted = *size});
  if (!layers) return tl::unexpected(layers.error());
  const BytesPerWeightByte beside = bytes_per_weight_byte(scenario.optimizer, scenario.precision);
  return PlanningTask{.layers = *std::move(layers),
                      .minibatch_size = *size,
                      .levels = std::move(cluster.levels),
                      .devices = std::move(cluster.devices),
                      .options = options,
                      // Planners themselves count gradients as large as the weights, so these are subtracted.
                      .state_bytes_per_weight_byte = beside.optimizer_state + beside.gradients - 1};
}

tl::expected<PlanningTask, std::string> planning_task(const Scenario& scenario, const PlanOptions& options) {
  auto cluster = levels_of(scenario.cluster);
  if (!cluster) return tl::unexpected(cluster.error());
  return planning_task_over(scenario, *std::move(cluster), options);
}

}  // namespace penstock
