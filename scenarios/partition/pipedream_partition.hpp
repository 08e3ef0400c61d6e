#pragma once
// PipeDream's partitioner (SOSP'19, section 3.1): which layers share a stage, how often each stage is
// replicated and how many minibatches are in flight. planned_scenario.hpp applies it to a scenario.

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

/// One stage of a plan; figures are of one minibatch.
struct PlannedStage {
  std::vector<std::int32_t> layers;   ///< indices, ascending
  std::vector<std::int32_t> devices;  ///< of its replicas: minibatch g runs on devices[g % devices.size()]
  std::int32_t in_flight = 1;         ///< minibatches on each replica, 1F1B-RR's warm-up + 1
  Ns compute_ns = 0;                  ///< forward + backward on one device
  Bytes weights = 0;
  Bytes cut = 0;   ///< alive behind the stage, sent forward; as much comes back
  Bytes held = 0;  ///< by one device: activations and weight versions in flight, gradients, optimizer state
  double reduction_ns = 0;     ///< a minibatch's part of the gradients' reductions, as the recurrence has it
  double cut_ns = 0;           ///< a minibatch on its way over the cut behind the stage and back, likewise
  std::int32_t cut_links = 1;  ///< that carry the cut, of which each minibatch takes one

  friend bool operator==(const PlannedStage&, const PlannedStage&) = default;
};

struct PipelinePlan {
  double period_ns = 0;              ///< between two minibatches, as the recurrence has it
  std::vector<PlannedStage> stages;  ///< every layer is in one; stages read from earlier ones alone

  friend bool operator==(const PipelinePlan&, const PipelinePlan&) = default;
};

/// The plan with the least period on all devices of the cluster, whose levels are given from the lowest to
/// the highest; device d is component d / (devices of the levels below) of its level. A straight pipeline of
/// fewer layers than devices leaves some idle, and where a memory limit leaves no plan for all components of
/// the highest level, the best one for the most components is taken. Of plans with equal periods the one with
/// the longest last stages is taken, as in the released code. Without a memory limit there is none. Errors: a
/// layer that fits no device (with its name and bytes), no plan within the limit, a graph of too many
/// downsets.
tl::expected<PipelinePlan, std::string> plan_pipeline(const LayerGraph& graph,
                                                      std::span<const BandwidthLevel> levels,
                                                      const PlanOptions& options,
                                                      std::int64_t state_bytes_per_weight_byte = 0);

/// The plans on 1, 2, ... components of the highest level, where there is one. None of a graph that
/// plan_pipeline() refuses.
std::vector<PipelinePlan> plans_on_each(const LayerGraph& graph, std::span<const BandwidthLevel> levels,
                                        const PlanOptions& options,
                                        std::int64_t state_bytes_per_weight_byte = 0);

/// The stages with their minibatches in flight, which follow from the devices of each and of those behind it,
/// and what is held for them; `held` is what one minibatch keeps, and compute is without overhead.
std::vector<PlannedStage> with_minibatches_in_flight(std::vector<PlannedStage> stages,
                                                     const LayerGraph& graph,
                                                     std::int64_t state_bytes_per_weight_byte);

/// The recurrence's period of a plan, from what its stages take: the largest of all cuts and of all stages'
/// compute and reduction, of which each device does its part.
double recurrence_period_ns(const PipelinePlan& plan, PlanObjective objective);

/// Bytes that all devices send for one minibatch: each cut's activations and gradients, and 2(m-1)W for the
/// ring all-reduce of a stage's m replicas once in m minibatches.
double bytes_per_minibatch(const PipelinePlan& plan);

}  // namespace penstock
