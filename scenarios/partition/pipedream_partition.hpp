#pragma once
// PipeDream's partitioner (SOSP'19, section 3.1). It decides which layers share a stage, how often each stage
// is replicated, and how many minibatches are in flight. planned_scenario.hpp applies it to a scenario.

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// One stage of a plan; the figures are for one minibatch.
struct PlannedStage {
  /// The indices of its layers, ascending.
  std::vector<std::int32_t> layers;
  /// The devices of its replicas: minibatch g runs on devices[g % devices.size()].
  std::vector<std::int32_t> devices;
  /// The minibatches in flight on each replica: 1F1B-RR's warm-up + 1.
  std::int32_t in_flight = 1;
  /// The time of forward + backward on one device.
  Ns compute_ns = 0;
  Bytes weights = 0;
  /// The bytes that are sent forward after the stage; as many come back.
  Bytes cut = 0;
  /// The bytes that one device holds: activations and weight versions in flight, gradients, optimizer state.
  Bytes held = 0;
  /// A minibatch's share of the gradients' reductions by the recurrence.
  double reduction_ns = 0;
  /// The time of a minibatch over the cut after the stage and back, by the recurrence.
  double cut_ns = 0;
  /// The links that carry the cut, of which each minibatch uses one.
  std::int32_t cut_links = 1;

  friend bool operator==(const PlannedStage&, const PlannedStage&) = default;
};

/// A plan of stages on devices.
struct PipelinePlan {
  /// The time between two minibatches by the recurrence.
  double period_ns = 0;
  /// The stages. Every layer is in one of them, and stages read only from earlier ones.
  std::vector<PlannedStage> stages;

  friend bool operator==(const PipelinePlan&, const PipelinePlan&) = default;
};

/// Returns the plan with the least period on all devices of the cluster. Levels are given from the lowest to
/// the highest, and device d is component d / (devices of the levels below) of its level. Some devices stay
/// idle in two cases: a straight pipeline has fewer layers than devices, or the memory limit allows a plan
/// only for fewer components of the highest level. Among equal periods the plan with the longest last stages
/// is taken, as in the released code. Errors: a layer that fits no device (with its name and bytes), no plan
/// within the limit, a graph with too many downsets.
tl::expected<PipelinePlan, std::string> plan_pipeline(const LayerGraph& graph,
                                                      std::span<const BandwidthLevel> levels,
                                                      const PlanOptions& options,
                                                      std::int64_t state_bytes_per_weight_byte = 0);

/// Returns the plans on 1, 2, ... components of the highest level, as far as they exist. Returns none for a
/// graph that plan_pipeline() refuses.
std::vector<PipelinePlan> plans_on_each(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                                        const PlanOptions& options,
                                        std::int64_t state_bytes_per_weight_byte = 0);

/// Returns the stages with their minibatches in flight and the bytes held for them. The minibatches follow
/// from the devices of each stage and of later ones. On input `held` is what one minibatch holds, and compute
/// times are without overhead.
std::vector<PlannedStage> with_minibatches_in_flight(std::vector<PlannedStage> stages,
                                                     const LayerGraph& graph,
                                                     std::int64_t state_bytes_per_weight_byte);

/// Returns a plan's period by the recurrence, from the times of its stages. That is the maximum over all cuts
/// and over all stages' compute and reduction, divided among each stage's devices.
double recurrence_period_ns(const PipelinePlan& plan, PlanObjective objective);

/// Returns the bytes that all devices send for one minibatch: each cut's activations and gradients, and
/// 2(m-1)W for the ring all-reduce of a stage's m replicas once in m minibatches.
double bytes_per_minibatch(const PipelinePlan& plan);

}  // namespace penstock
