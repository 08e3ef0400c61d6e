// Prices a rank's step. Once a step the copies of a rank reduce their gradients and gather the weights of
// which each has updated its part. Both move in buckets (Parallel::bucket_size) beside other passes:
//
//   backward of the last microbatch    | last layer | the other layers, in reverse    |
//   reduction                                       | bucket | bucket | ..   | bucket |  exposed
//
//   forward of the first microbatch              | the layers in their order | last layer |
//   gathering                           | bucket | bucket | ..   | bucket |
//
// The first gradients are complete after the last layer's backward pass. From then on the reduction runs
// beside the backward pass, but the last bucket is complete only at its end. In the same way the first bucket
// of weights is gathered before anything can run, and the last one while all layers but the last run:
//
//   exposed reduction = max(last bucket, reduction - backward behind the last layer)
//   exposed gathering = max(first bucket, gathering - forward before the last layer)
//
// A rank of several stages has the layers of all of them. Over the network a share of the whole reduction is
// exposed in addition (DeviceType::step_fraction), but no more than all of it. Without overlap everything is
// exposed.
//
// With sharding 2 and 3 the last microbatch's scatter is that reduction, and with 3 the first one's gather
// replaces the gathered weights (weight_copies.cpp). The same rule is applied to them, so that more sharding
// does not promise a faster step. What a microbatch already exposes in its own passes is not counted again:
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
#include <set>
#include <span>

#include "scenarios/pricing/collectives.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_prices.hpp"
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

/// The parameters of all stages of a rank.
struct RankParameters {
  DeviceParameters held;
  double updated = 0;
  ShownCollectives shown;
  /// The computation of a microbatch behind its last layer, or before it.
  ComputeSeconds beside;
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
                         const DeviceParameters& parameters, const ComputeSeconds& beside,
                         const ShownCollectives& shown) {
  const Parallel& parallel = work.parallel;
  if (parameters.total() <= 0) return 0;
  const auto seconds = [&](GroupOperation operation, double bytes) {
    return copies_seconds(work, kernels, operation, parameters, bytes);
  };
  // If the optimizer's state is divided, each copy needs only the sums of its own part, and the weights that
  // the others have updated.
  const bool scatters = parallel.sharding > 0;
  const double reduce_s =
      seconds(scatters ? GroupOperation::reduce_scatter : GroupOperation::all_reduce, work.gradient_bytes);
  const double gather_s = scatters ? seconds(GroupOperation::all_gather, gathered_bytes(work)) : 0;
  const double of_bucket = std::min(1.0, static_cast<double>(parallel.bucket_size) / parameters.total());
  const auto exposed = [&](double all_s, double hidden_s) {
    return parallel.data_overlap ? std::max(of_bucket * all_s, all_s - hidden_s) : all_s;
  };
  const bool over_network = !is_on_nvlink(parallel, work.ranks, DeviceGroup::data, work.device);
  const double of_network_s = over_network ? work.device.step_fraction * reduce_s : 0;
  const double exposed_reduce_s = std::min(reduce_s, exposed(reduce_s, beside.backward_s) + of_network_s);
  return std::max(0.0, exposed_reduce_s - shown.scattered_s) +
         std::max(0.0, exposed(gather_s, beside.forward_s) - shown.gathered_s);
}

RankStep longest_step(const Workload& work, const KernelTables& kernels, std::span<const StagePrice> stages,
                      std::span<const std::int32_t> rank_of_stage) {
  std::map<std::int32_t, RankParameters> ranks;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    RankParameters& rank = ranks[rank_of_stage[i]];
    rank.held += stages[i].parameters;
    rank.updated += stages[i].updated_parameters;
    rank.shown += stages[i].shown;
    rank.beside += stages[i].compute;
  }
  // The layers of a rank's last stage are the last that it runs forward.
  std::set<std::int32_t> without_last;
  for (std::size_t i = stages.size(); i-- > 0;) {
    if (!without_last.insert(rank_of_stage[i]).second) continue;
    ComputeSeconds& beside = ranks[rank_of_stage[i]].beside;
    beside.forward_s -= stages[i].last_compute.forward_s;
    beside.backward_s -= stages[i].last_compute.backward_s;
  }
  // All ranks wait for the longest step, because an update needs the norm of all gradients.
  RankStep longest;
  for (const auto& [rank, parameters] : ranks) {
    const double optimizer_s = optimizer_seconds(work, parameters);
    const RankStep step{
        .reduction_s = reduction_seconds(work, kernels, parameters.held, parameters.beside, parameters.shown),
        .optimizer_s = optimizer_s};
    if (step.total_s() > longest.total_s()) longest = step;
  }
  return longest;
}

}  // namespace penstock
