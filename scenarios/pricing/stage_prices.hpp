#pragma once
// The time and memory of each model stage of a workload on one device of its rank.

#include <cstdint>
#include <span>
#include <vector>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_prices.hpp"
#include "scenarios/pricing/weight_copies.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The price of one model stage: seconds and bytes of one microbatch.
struct StagePrice {
  double forward_s = 0;
  double backward_input_s = 0;
  double backward_weight_s = 0;
  /// The part of these times that is exposed collectives.
  ShownCollectives shown;
  /// The computation in these times, and the part of it that belongs to the stage's last layer or head.
  ComputeSeconds compute;
  ComputeSeconds last_compute;
  double kept_bytes = 0;
  /// The additional bytes that are held from I to W.
  double recomputed_bytes = 0;
  double transient_bytes = 0;
  /// The part of transient_bytes that I and W count in recomputed_bytes.
  double recomputed_at_once = 0;
  /// The bytes that are sent forward over the outgoing edge, and back as a gradient.
  double edge_bytes = 0;
  double weight_bytes = 0;
  double gradient_bytes = 0;
  double optimizer_bytes = 0;
  /// The time and memory of the head's deferred weight gradient, for one microbatch
  /// (Workload::deferred_head). The time is in no other field. The bytes are its inputs, which are held to
  /// the end of the step.
  double deferred_s = 0;
  double deferred_bytes = 0;
  DeviceParameters parameters;
  /// The parameters whose optimizer state the device holds and which it updates.
  double updated_parameters = 0;
};

/// Returns the prices of the stages. `layers` has the layers of each stage, and `rank_of_stage` the rank of
/// each stage. The stages of a rank share placeholders of gradients. Requires both to have equal lengths, and
/// that the layers are those of the model.
std::vector<StagePrice> price_stages(const Workload& work, const KernelTables& kernels,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage);
/// Like the function above, with layers that were priced before.
std::vector<StagePrice> price_stages(const Workload& work, const LayerPrices& layer_prices,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage);

}  // namespace penstock
