#pragma once
// PipeDream's partitioner (SOSP'19, section 3.1). It decides the layers and the replicas of each stage, and
// the number of minibatches in flight. planned_scenario.hpp applies it to a scenario.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// One stage of a plan. Its figures are for one minibatch.
struct PlannedStage {
  /// The indices of the stage's layers, in ascending order.
  std::vector<std::int32_t> layers;
  /// The devices of the stage's replicas. Minibatch g runs on devices[g % devices.size()].
  std::vector<std::int32_t> devices;
  /// The number of minibatches in flight on each replica, which is the warm-up of 1F1B-RR + 1.
  std::int32_t in_flight = 1;
  /// The time of forward + backward on one device.
  Ns compute_ns = 0;
  Bytes weights = 0;
  /// The bytes that the stage sends to the next one. The same number of bytes comes back as gradients.
  Bytes cut = 0;
  /// The bytes that one device holds: activations and weight versions of minibatches in flight, gradients and
  /// optimizer state.
  Bytes held = 0;
  /// The reduction time of the gradients for each minibatch, by the recurrence.
  double reduction_ns = 0;
  /// The time of a minibatch over the cut after the stage, forward and back, by the recurrence.
  double cut_ns = 0;
  /// The number of links over the cut. Each minibatch uses one of them.
  std::int32_t cut_links = 1;

  friend bool operator==(const PlannedStage&, const PlannedStage&) = default;
};

/// A plan of stages on devices.
struct PipelinePlan {
  /// The time between two minibatches, as PipeDream's recurrence computes it.
  double period_ns = 0;
  /// The stages. Every layer is in one stage, and each stage reads only from earlier stages.
  std::vector<PlannedStage> stages;

  friend bool operator==(const PipelinePlan&, const PipelinePlan&) = default;
};

/// Returns the plan with the least period on all devices of the cluster. Levels are given from the lowest to
/// the highest. Device d is component d / (devices of the levels below) of its level. Some devices stay idle
/// in two cases: a straight pipeline has fewer layers than devices, or the memory limit allows a plan only on
/// fewer components of the highest level. Among plans with equal periods it takes the one with the longest
/// last stages, as the released code does. Errors: a layer that fits no device (with its name and bytes), no
/// plan within the limit, a graph with too many downsets.
tl::expected<PipelinePlan, std::string> plan_pipeline(const LayerGraph& graph,
                                                      std::span<const BandwidthLevel> levels,
                                                      const PlanOptions& options,
                                                      std::int64_t state_bytes_per_weight_byte = 0);

/// Returns the plans on 1, 2, ... components of the highest level. It omits numbers for which there is no
/// plan. Returns an empty list for a graph that plan_pipeline() refuses.
std::vector<PipelinePlan> plans_on_each(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                                        const PlanOptions& options,
                                        std::int64_t state_bytes_per_weight_byte = 0);

/// Returns the stages with their minibatches in flight and the bytes that these need. The number of
/// minibatches follows from the devices of each stage and of later stages. In the input, `held` has the bytes
/// of one minibatch, and compute times do not include overhead.
std::vector<PlannedStage> with_minibatches_in_flight(std::vector<PlannedStage> stages,
                                                     const LayerGraph& graph,
                                                     std::int64_t state_bytes_per_weight_byte);

/// Returns a plan's period by the recurrence. It is the maximum over all cuts, and over compute and reduction
/// of all stages, each divided by the stage's number of devices.
double recurrence_period_ns(const PipelinePlan& plan, PlanObjective objective);

/// Returns the bytes that all devices send for one minibatch. They are the activations and gradients of each
/// cut, and 2(m-1)W for the ring all-reduce of a stage's m replicas, which runs once for m minibatches.
double bytes_per_minibatch(const PipelinePlan& plan);

// Computes the period of a plan whose stages are given, by PipeDream's recurrence. Used where plans are
// ranked by another measure (planned_scenario.hpp).

/// The layers of a stage, and the devices of its replicas. Minibatch g runs on devices[g % devices.size()].
struct StatedStage {
  std::vector<std::int32_t> layers;
  std::vector<std::int32_t> devices;
};

/// Returns the plan of these stages with its period under the objective `maximum`. Each ring and each cut
/// uses the bandwidth of the lowest level with a component that contains all its devices. Devices are
/// numbered component by component. Requires stages in an order in which they can run, and at least one
/// device for each stage.
PipelinePlan stated_plan(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                         const std::vector<StatedStage>& stages, std::int64_t state_bytes_per_weight_byte);

}  // namespace penstock
