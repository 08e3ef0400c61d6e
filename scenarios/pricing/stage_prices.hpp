#pragma once
// What each model stage of a workload takes and holds on one device of its rank.

#include <cstdint>
#include <span>
#include <vector>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_prices.hpp"
#include "scenarios/pricing/weight_copies.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// One model stage. Seconds and bytes of one microbatch.
struct StagePrice {
  double forward_s = 0;
  double backward_input_s = 0;
  double backward_weight_s = 0;
  ShownCollectives shown;  ///< a part of these
  double kept_bytes = 0;
  double recomputed_bytes = 0;  ///< held besides from I to W
  double transient_bytes = 0;
  double recomputed_at_once = 0;  ///< the part of transient_bytes that I and W count in recomputed_bytes
  double edge_bytes = 0;          ///< sent forward over the edge out of it, and back as gradient
  double weight_bytes = 0;
  double gradient_bytes = 0;
  double optimizer_bytes = 0;
  /// Of the head's weight gradient where it is put off to the end of the step (Workload::deferred_head): its
  /// time, in no other one, and what it is computed from, held until then. Of one microbatch.
  double deferred_s = 0;
  double deferred_bytes = 0;
  DeviceParameters parameters;
  double updated_parameters = 0;  ///< whose optimizer state the device holds, and which it updates
};

/// The stages' prices. `layers` has the layers of each stage, `rank_of_stage` where each is: placeholders of
/// gradients are shared by the stages of a rank. Requires as many of one as of the other, and that the
/// layers are the model's.
std::vector<StagePrice> price_stages(const Workload& work, const KernelTables& kernels,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage);
/// The same from the workload's layers, priced before.
std::vector<StagePrice> price_stages(const Workload& work, const LayerPrices& layer_prices,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage);

}  // namespace penstock
