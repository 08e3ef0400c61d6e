#pragma once
// The work of a rank once a step: exchanges of gradients and weights between its copies, and the optimizer.

#include <cstdint>
#include <span>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_prices.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/weight_copies.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The seconds of a rank's step beside its microbatches, as far as other work does not hide them.
struct RankStep {
  /// The reduction of gradients and the gathering of weights.
  double reduction_s = 0;
  double optimizer_s = 0;
  double total_s() const { return reduction_s + optimizer_s; }
};

/// Returns the exposed seconds of the gradients' reduction and of gathering weights, on a rank that holds
/// these parameters. `beside` is the computation of one microbatch that hides them: the backward pass after
/// the rank's first gradients are complete, and the forward pass before its last weights are needed. `shown`
/// is what each microbatch already exposes of them with sharding 2 and 3.
double reduction_seconds(const Workload& work, const KernelTables& kernels,
                         const DeviceParameters& parameters, const ComputeSeconds& beside,
                         const ShownCollectives& shown);

/// Returns the longest step of all ranks, for which all ranks wait.
RankStep longest_step(const Workload& work, const KernelTables& kernels, std::span<const StagePrice> stages,
                      std::span<const std::int32_t> rank_of_stage);

}  // namespace penstock
