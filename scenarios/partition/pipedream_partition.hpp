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
  /// The number of minibatches in flight on each replica. It is the warm-up of 1F1B-RR plus 1.
  std::int32_t in_flight = 1;
  /// The time of forward + backward on one device.
  Ns compute_ns = 0;
  Bytes weights = 0;
  /// The bytes of activations that the stage sends to the next stage. Equally many bytes of gradients come
  /// back.
  Bytes cut = 0;
  /// The bytes that one device stores: activations and weight versions of minibatches in flight, gradients
  /// and optimizer state.
  Bytes held = 0;
  /// The time to reduce the gradients, as a share for one minibatch. recurrence_period_ns() uses it.
  double reduction_ns = 0;
  /// The time in which a minibatch's activations and gradients cross the cut after the stage.
  double cut_ns = 0;
  /// The number of links between this stage and the next one. Each minibatch uses one of these links.
  std::int32_t cut_links = 1;

  friend bool operator==(const PlannedStage&, const PlannedStage&) = default;
};

/// A plan: the stages of a pipeline and the devices that run them.
struct PipelinePlan {
  /// The time between two minibatches, as PipeDream's dynamic programme computes it.
  double period_ns = 0;
  /// The stages. Every layer is in one stage, and each stage reads only from earlier stages.
  std::vector<PlannedStage> stages;

  friend bool operator==(const PipelinePlan&, const PipelinePlan&) = default;
};

/// Returns the plan with the shortest period on all devices of the cluster. `levels` go from the lowest to
/// the highest. On each level, device d belongs to component d / n, where n is the number of devices in one
/// component. Some devices are idle in two cases. In a straight pipeline, there may be fewer layers than
/// devices. The memory limit may also allow only plans on fewer components of the highest level. Among
/// plans with equal periods, the function chooses the plan with the longest last stages, as PipeDream's
/// released code does. Errors: a layer that fits on no device (the message has its name and bytes); no plan
/// within the memory limit; a graph with too many downsets.
tl::expected<PipelinePlan, std::string> plan_pipeline(const LayerGraph& graph,
                                                      std::span<const BandwidthLevel> levels,
                                                      const PlanOptions& options,
                                                      std::int64_t state_bytes_per_weight_byte = 0);

/// Returns the best plans on 1, 2, ... components of the highest level. It omits numbers of components for
/// which there is no plan. Returns an empty list for a graph that plan_pipeline() refuses.
std::vector<PipelinePlan> plans_on_each(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                                        const PlanOptions& options,
                                        std::int64_t state_bytes_per_weight_byte = 0);

/// Returns `stages` with the fields that depend on the minibatches in flight. Their number follows from the
/// devices of the stage and of later stages. In the input, `held` has the bytes of one minibatch; in the
/// result, of all minibatches in flight. In the input, compute times do not include overhead; in the
/// result, they do.
std::vector<PlannedStage> with_minibatches_in_flight(std::vector<PlannedStage> stages,
                                                     const LayerGraph& graph,
                                                     std::int64_t state_bytes_per_weight_byte);

/// Returns a plan's period by PipeDream's recurrence. It is the maximum of the times of all cuts and of all
/// stages. The time of a stage (computation and reduction) is divided by its number of devices.
double recurrence_period_ns(const PipelinePlan& plan, PlanObjective objective);

/// Returns the bytes that all devices together send for one minibatch. They are the activations and
/// gradients that cross each cut, and the bytes of ring all-reduces. The m replicas of a stage with weights
/// of W bytes send 2(m-1)W bytes for m minibatches. If `reduced` is not 0, they send these bytes for
/// `reduced` minibatches.
double bytes_per_minibatch(const PipelinePlan& plan, std::int32_t reduced = 0);

// Computes the period of a plan with given stages, by PipeDream's recurrence. It is used for plans that
// another measure ranks (planned_scenario.hpp).

/// The layers of a stage, and the devices of its replicas. Minibatch g runs on devices[g % devices.size()].
struct StatedStage {
  std::vector<std::int32_t> layers;
  std::vector<std::int32_t> devices;
};

/// Returns the plan that consists of these stages, with its period under the objective `maximum`. To price
/// a ring or a cut, it finds the lowest level on which one component contains all devices involved. It uses
/// the bandwidth of this level. Device numbers follow the components. Requires that each stage has at least
/// one device and reads only from earlier stages.
PipelinePlan stated_plan(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                         const std::vector<StatedStage>& stages, std::int64_t state_bytes_per_weight_byte);

}  // namespace penstock
