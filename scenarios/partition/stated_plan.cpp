// Computes the period of a plan whose stages are given. Messages between servers use the bandwidth between
// servers, and all other messages use the bandwidth inside a server:
//
//   period = max over stages of  max( T/m, 2(m-1) W / (B m^2) )   and over cuts of  2 a / B
//
// This is the objective `maximum` of pipedream_levels.cpp for stages that no level divides further. Tested by
// planned_scenario_test.cpp.

#include "scenarios/partition/stated_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// Returns the bandwidth of the lowest level with a component that contains all devices, in bytes a
/// nanosecond.
double bandwidth_around(std::span<const BandwidthLevel> levels, std::span<const std::int32_t> devices) {
  std::int32_t size = 1;
  for (const BandwidthLevel& level : levels) {
    // Devices are numbered level by level, so the devices of one component have adjacent numbers.
    size *= level.components;
    const auto is_inside = [&](std::int32_t device) { return device / size == devices.front() / size; };
    if (std::ranges::all_of(devices, is_inside)) return level.bytes_per_second / 1e9;
  }
  return levels.back().bytes_per_second / 1e9;
}

/// Returns, for each layer, the last stage that reads it, or the layer's own stage if no stage reads it.
std::vector<std::size_t> last_readers(const LayerGraph& graph, const std::vector<StatedStage>& stages) {
  std::vector<std::size_t> last(graph.layers.size(), 0);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const std::int32_t layer : stages[s].layers) {
      last[static_cast<std::size_t>(layer)] = s;
      // Stages come in pipeline order, so the last value that is written belongs to the last reader.
      for (const std::int32_t input : graph.layers[static_cast<std::size_t>(layer)].inputs)
        last[static_cast<std::size_t>(input)] = s;
    }
  }
  return last;
}

/// Returns a stage with the sums over its layers. `held` has the bytes of one minibatch.
PlannedStage with_sums(const LayerGraph& graph, const StatedStage& stated) {
  PlannedStage stage{.layers = stated.layers, .devices = stated.devices};
  for (const std::int32_t index : stated.layers) {
    const Layer& layer = graph.layers[static_cast<std::size_t>(index)];
    stage.compute_ns += layer.forward_ns + layer.backward_ns;
    stage.weights += layer.weights;
    stage.held += layer.kept_bytes();
  }
  return stage;
}

}  // namespace

PipelinePlan stated_plan(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                         const std::vector<StatedStage>& stages, std::int64_t state_bytes_per_weight_byte) {
  PipelinePlan plan;
  const std::vector<std::size_t> last = last_readers(graph, stages);
  Bytes alive = 0;
  std::vector<Bytes> dies(stages.size(), 0);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    PlannedStage stage = with_sums(graph, stages[s]);
    for (const std::int32_t index : stages[s].layers) {
      const auto layer = static_cast<std::size_t>(index);
      alive += graph.layers[layer].output;
      // An output crosses every cut between its own stage and the last stage that reads it.
      dies[last[layer]] += graph.layers[layer].output;
    }
    // An output is no longer alive after the last stage that reads it, or after its own stage if no stage
    // reads it.
    alive -= dies[s];
    stage.cut = alive;
    const auto replicas = static_cast<double>(stage.devices.size());
    // A ring sends 2(m-1)/m of the weights for each replica. The result is divided by m, because one
    // reduction serves a round of m minibatches.
    stage.reduction_ns = 2 * (replicas - 1) * static_cast<double>(stage.weights) /
                         (bandwidth_around(levels, stage.devices) * replicas * replicas);
    if (s + 1 < stages.size()) {
      std::vector<std::int32_t> around = stage.devices;
      around.insert(around.end(), stages[s + 1].devices.begin(), stages[s + 1].devices.end());
      // The cut carries the activation forward and its gradient backward.
      stage.cut_ns = 2 * static_cast<double>(stage.cut) / bandwidth_around(levels, around);
    }
    plan.stages.push_back(std::move(stage));
  }
  plan.stages = with_minibatches_in_flight(std::move(plan.stages), graph, state_bytes_per_weight_byte);
  plan.period_ns = recurrence_period_ns(plan, PlanObjective::maximum);
  return plan;
}

}  // namespace penstock
