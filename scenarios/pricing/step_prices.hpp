#pragma once
// What a rank does once a step: gradients and weights between its copies, and the optimizer.

#include <cstdint>
#include <span>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/weight_copies.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// What a rank does once a step beside its microbatches, as far as nothing hides it.
struct RankStep {
  double reduction_s = 0;  ///< gradients, and weights back
  double optimizer_s = 0;
  double total_s() const { return reduction_s + optimizer_s; }
};

/// What of the gradients' reduction, and of the weights' way back, nothing hides on a rank that holds these
/// parameters in `chunks` model stages. `shown` is what each of its microbatches shows of them already, under
/// sharding 2 and 3.
double reduction_seconds(const Workload& work, const KernelTables& kernels,
                         const DeviceParameters& parameters, std::int32_t chunks,
                         const ShownCollectives& shown);

/// Over the ranks: the longest step, which all wait for.
RankStep longest_step(const Workload& work, const KernelTables& kernels, std::span<const StagePrice> stages,
                      std::span<const std::int32_t> rank_of_stage);

}  // namespace penstock
