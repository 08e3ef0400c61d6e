// Prices a rank's step. Once a step the copies of a rank reduce their gradients and gather the weights of
// which each has updated its part. If these run beside the other passes, 1/v of both stays exposed (v chunks:
// the first chunk's gradients are complete last). Over the network a share of the whole reduction is exposed
// in addition, but no more than all of it:
//
//   min(1, 1/v + step_fraction) of the reduction  +  1/v of the gathered weights
//
// With one chunk everything is exposed, overlapped or not. The share was measured with sharding 1. With
// sharding 2 and 3 the last microbatch's scatter is that reduction, and with 3 the first one's gather
// replaces the gathered weights (weight_copies.cpp). The share is applied to them, too, so that more sharding
// does not promise a faster backward pass. What a microbatch already exposes in its own passes is not counted
// again:
//
//   M (exposed in a microbatch)  +  max(0, exposed once a step - exposed in a microbatch)
//
// The optimizer reads and writes its share once: weights in 4 bytes and two moments, gradients, new weights.
// Tested by pricing_test.cpp and weight_copies_test.cpp.

#include "scenarios/pricing/step_prices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "scenarios/pricing/collectives.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/weight_copies.hpp"
#include "scenarios/pricing/workload.hpp"
#include "topology/device_types.hpp"

namespace penstock {
namespace {

constexpr double kOptimizerLaunchSeconds = 0.3e-3;  // launches of its kernels, once a step
/// The bytes that a parameter moves beside the state, which is read and written: its gradient (4), its weight
/// (2), and both again (4 + 4).
constexpr double kOptimizerOtherBytes = 4 + 2 + 4 + 4;

std::int32_t stages_on(std::span<const std::int32_t> rank_of_stage, std::int32_t rank) {
  return static_cast<std::int32_t>(std::ranges::count(rank_of_stage, rank));
}

/// The parameters of all stages of a rank.
struct RankParameters {
  DeviceParameters held;
  double updated = 0;
  ShownCollectives shown;
};

/// Returns the seconds in which the optimizer reads and writes at the rate of the device's memory. It reads
/// and writes the part that it updates. It also reads all held gradients once for their norm and once to set
/// them to 0.
double optimizer_seconds(const Workload& work, const RankParameters& parameters) {
  const double bytes = parameters.updated * (2.0 * work.optimizer_bytes + kOptimizerOtherBytes) +
                       parameters.held.total() * work.gradient_bytes;
  const DeviceType& device = work.device;
  return bytes / (device.memory_efficiency * device.memory_bytes_per_second) + kOptimizerLaunchSeconds;
}

}  // namespace

double reduction_seconds(const Workload& work, const KernelTables& kernels,
                         const DeviceParameters& parameters, std::int32_t chunks,
                         const ShownCollectives& shown) {
  const Parallel& parallel = work.parallel;
  const auto seconds = [&](GroupOperation operation, double bytes) {
    return copies_seconds(work, kernels, operation, parameters, bytes);
  };
  // If the optimizer's state is divided, each copy needs only the sums of its own part, and the weights that
  // the others have updated.
  const bool scatters = parallel.sharding > 0;
  const double reduce_s =
      seconds(scatters ? GroupOperation::reduce_scatter : GroupOperation::all_reduce, work.gradient_bytes);
  const double gather_s = scatters ? seconds(GroupOperation::all_gather, gathered_bytes(work)) : 0;
  const bool over_network = !is_on_nvlink(parallel, work.ranks, DeviceGroup::data, work.device);
  const double part = parallel.data_overlap ? 1.0 / chunks : 1;
  const double of_network = parallel.data_overlap && over_network ? work.device.step_fraction : 0;
  return std::max(0.0, std::min(1.0, part + of_network) * reduce_s - shown.scattered_s) +
         std::max(0.0, part * gather_s - shown.gathered_s);
}

RankStep longest_step(const Workload& work, const KernelTables& kernels, std::span<const StagePrice> stages,
                      std::span<const std::int32_t> rank_of_stage) {
  std::map<std::int32_t, RankParameters> ranks;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    RankParameters& rank = ranks[rank_of_stage[i]];
    rank.held += stages[i].parameters;
    rank.updated += stages[i].updated_parameters;
    rank.shown += stages[i].shown;
  }
  // All ranks wait for the longest step, because an update needs the norm of all gradients.
  RankStep longest;
  for (const auto& [rank, parameters] : ranks) {
    const double optimizer_s = optimizer_seconds(work, parameters);
    const RankStep step{.reduction_s = reduction_seconds(work, kernels, parameters.held,
                                                         stages_on(rank_of_stage, rank), parameters.shown),
                        .optimizer_s = optimizer_s};
    if (step.total_s() > longest.total_s()) longest = step;
  }
  return longest;
}

}  // namespace penstock
