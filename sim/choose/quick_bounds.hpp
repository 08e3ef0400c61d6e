#pragma once
// Finds lower bounds of a configuration's time and memory from sums over its layers, before the costs of
// its stages are computed. A search computes costs only for configurations that these bounds do not rule
// out.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The lower bounds of a configuration's step time and peak memory.
struct LowerBounds {
  Ns step_ns = 0;
  Bytes peak_bytes = 0;  ///< lower bound of the peak of the fullest rank
};

/// The time and memory of one part of a model for one microbatch, in nanoseconds and bytes. A part is the
/// embedding, one layer, or the head.
struct PartCost {
  double forward_ns = 0;
  double input_ns = 0;   ///< the gradient of the input
  double weight_ns = 0;  ///< the gradient of the weights
  double kept = 0;
  double released_by_input = 0;  ///< the part of `kept` that I releases
  double recomputed = 0;
  double constant = 0;  ///< weights and optimizer state
  double gradients = 0;

  double backward_ns() const { return input_ns + weight_ns; }
  double total_ns() const { return forward_ns + backward_ns(); }
  PartCost operator+(const PartCost& other) const;
  PartCost operator-(const PartCost& other) const;
};

/// The bytes that a part needs only while it runs.
struct PartTransient {
  double whole = 0;  ///< in F and B
  double split = 0;  ///< in I and W
};

/// The costs of all parts of a model, as prefix sums.
struct PartSums {
  /// Prefix sums of the costs: entry i is the sum over all parts before part i.
  std::vector<PartCost> before{PartCost{}};
  PartTransient embedding{};
  PartTransient layer{};  ///< the minimum over all layers
  PartTransient head{};
};

/// Returns the prefix sums of a workload's costs, computed from `prices`. `one_rank_has_both_ends` is true
/// if the first and the last stage are on one rank. The sums and their bounds are 0 if the cost of a layer
/// depends on its stage. This is so if only some layers are recomputed, or if a layout places
/// multi-token-prediction layers.
PartSums part_sums(const Workload& work, const LayerPrices& prices, bool one_rank_has_both_ends);

/// Returns lower bounds of the time and memory of a pipeline whose stages have `layers` layers. The bounds
/// ignore STEP, messages and transient bytes.
LowerBounds quick_bounds(const PartSums& sums, const std::vector<std::int64_t>& layers,
                         const ScheduleOutline& outline, std::int32_t microbatches);
/// Returns a lower bound of the bytes that all ranks together need for stages with these layers.
Bytes least_bytes_of_ranks(const PartSums& sums, const std::vector<std::int64_t>& layers,
                           const ScheduleOutline& outline);
/// Returns lower bounds of the time and memory that hold for every division of the layers into stages.
LowerBounds quick_bounds(const PartSums& sums, const ScheduleOutline& outline, std::int32_t microbatches);

}  // namespace penstock
