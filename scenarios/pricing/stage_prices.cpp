// A stage is its layers, with the embedding before the first and the head behind the last:
//
//   time       = sum of its terms
//   bytes kept = sum over its layers
//   weights    = those of its layers and ends
//
// Once a step the copies of a rank reduce their gradients and gather the weights that each has updated its
// part of, as far as they do not in every microbatch (weight_copies.cpp). Of both, 1/v stays exposed when
// they run beside the other passes (v chunks: the first chunk's gradients are complete last), and over the
// network a part of the whole reduction besides. The optimizer reads and writes its share once: weights in 4
// bytes and two moments, gradients, new weights.

#include "scenarios/pricing/stage_prices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_prices.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/weight_copies.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

constexpr double kOptimizerLaunchSeconds = 0.3e-3;
/// Beside the state, read and written, a parameter moves its gradient (4), its weight (2), and both again
/// (4 + 4).
constexpr double kOptimizerOtherBytes = 4 + 2 + 4 + 4;
/// Of a weight of the embedding, the head or a norm.
constexpr double kEndBytes = 2;

void add_times(StagePrice& stage, const PassTimes& times) {
  stage.forward_s += times.forward_s;
  stage.backward_input_s += times.backward_input_s;
  stage.backward_weight_s += times.backward_weight_s;
}

void add_layer(StagePrice& stage, const LayerPrice& layer) {
  add_times(stage, layer.times);
  stage.kept_bytes += layer.kept_bytes;
  stage.transient_bytes = std::max(stage.transient_bytes, layer.transient_bytes);
  stage.parameters += layer.parameters;
}

/// The gradient of the logits and the head's input stay (Megatron-LM's defer_embedding_wgrad_compute).
void put_off(StagePrice& stage, const Workload& work, const PassTimes& head) {
  constexpr double kBytesPerValue = 2;
  stage.backward_weight_s -= head.backward_weight_s;
  stage.deferred_s = head.backward_weight_s;
  stage.deferred_bytes = kBytesPerValue * work.tokens() *
                         static_cast<double>(work.model.vocabulary + work.model.hidden) /
                         work.parallel.tensor;
}

void add_embedding(StagePrice& stage, const Workload& work, const EndPrice& embedding) {
  add_times(stage, embedding.times);
  stage.parameters += embedding_device_parameters(work);
  stage.transient_bytes = std::max(stage.transient_bytes, embedding.transient_bytes);
}

void add_head(StagePrice& stage, const Workload& work, const HeadPrice& head, bool beside_embedding) {
  for (const LayerPrice& layer : head.multi_token) add_layer(stage, layer);
  add_times(stage, head.times);
  if (work.deferred_head) put_off(stage, work, head.times);
  stage.parameters += head_device_parameters(work, beside_embedding);
  stage.transient_bytes = std::max(stage.transient_bytes, head.transient_bytes);
}

/// Those of `held` that a device holds of what is shared out from `sharding` on.
DeviceParameters held_from(const Parallel& parallel, std::int32_t sharding, const DeviceParameters& held) {
  return parallel.sharding >= sharding ? part_of_copy(parallel, held) : held;
}

/// Bytes of weights: norms, embedding and head stay in 2 bytes, which only 8 bit weights would notice.
void add_static_bytes(StagePrice& stage, const Workload& work, const DeviceParameters& ends) {
  // The levels of sharding: 1 shares out the optimizer's state, 2 the gradients, too, and 3 the weights as
  // well.
  const DeviceParameters& own = stage.parameters;
  const DeviceParameters weights = held_from(work.parallel, 3, own);
  const double of_ends = held_from(work.parallel, 3, ends).total();
  stage.weight_bytes = weight_bytes(work) * (weights.total() - of_ends) + kEndBytes * of_ends;
  stage.gradient_bytes = work.gradient_bytes * held_from(work.parallel, 2, own).total();
  stage.optimizer_bytes = work.optimizer_bytes * held_from(work.parallel, 1, own).total();
}

std::int32_t stages_on(std::span<const std::int32_t> rank_of_stage, std::int32_t rank) {
  return static_cast<std::int32_t>(std::ranges::count(rank_of_stage, rank));
}

double reduction_seconds(const Workload& work, const KernelTables& kernels,
                         const DeviceParameters& parameters, std::int32_t chunks) {
  const Parallel& parallel = work.parallel;
  const auto seconds = [&](GroupOperation operation, double bytes) {
    return copies_seconds(work, kernels, operation, parameters, bytes);
  };
  // Where the state is shared out, each copy needs only the sums of its own part, and the weights that the
  // others have updated.
  const bool scatters = parallel.sharding > 0;
  const double reduce_s =
      seconds(scatters ? GroupOperation::reduce_scatter : GroupOperation::all_reduce, work.gradient_bytes);
  const double gather_s = scatters ? seconds(GroupOperation::all_gather, gathered_bytes(work)) : 0;
  if (!parallel.data_overlap) return reduce_s + gather_s;
  const bool over_network = !is_on_nvlink(parallel, work.ranks, DeviceGroup::data, work.device);
  return (reduce_s + gather_s) / chunks + (over_network ? work.device.step_fraction * reduce_s : 0);
}

}  // namespace

std::vector<StagePrice> price_stages(const Workload& work, const LayerPrices& layer_prices,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage) {
  const std::size_t stages = layers.size();
  std::vector<StagePrice> prices(stages);
  std::vector<LayerPrices::Kinds> kinds(static_cast<std::size_t>(std::ranges::max(rank_of_stage)) + 1);
  std::size_t next = 0;
  for (std::size_t i = 0; i < stages; ++i) {
    StagePrice& stage = prices[i];
    for (std::int64_t n = 0; n < layers[i]; ++n, ++next) {
      add_layer(stage, layer_prices.of_layer(next));
      kinds[index(rank_of_stage[i])].set(layer_prices.kind_of_layer(next));
    }
    // What the embedding and the head add from here on are the ends' parameters.
    const double before = stage.parameters.dense;
    if (i == 0) add_embedding(stage, work, layer_prices.embedding());
    if (i + 1 == stages) {
      add_head(stage, work, layer_prices.head(), rank_of_stage.front() == rank_of_stage.back());
    } else {
      stage.edge_bytes = 2 * work.tokens() * static_cast<double>(work.model.hidden) / work.parallel.tensor;
    }
    add_static_bytes(stage, work, {.dense = stage.parameters.dense - before});
  }
  std::vector<double> placeholders;
  placeholders.reserve(kinds.size());
  for (const LayerPrices::Kinds& of_rank : kinds) {
    // Neighbours mostly hold the same kinds of layers, whose shapes need not be added up again.
    const bool is_as_before = !placeholders.empty() && of_rank == kinds[placeholders.size() - 1];
    placeholders.push_back(is_as_before ? placeholders.back() : layer_prices.placeholder_bytes(of_rank));
  }
  for (std::size_t i = 0; i < stages; ++i)
    prices[i].transient_bytes += placeholders[index(rank_of_stage[i])] + kOtherBytes;
  return prices;
}

std::vector<StagePrice> price_stages(const Workload& work, const KernelTables& kernels,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage) {
  return price_stages(work, LayerPrices(work, kernels), layers, rank_of_stage);
}

RankStep price_step(const Workload& work, const KernelTables& kernels, const DeviceParameters& parameters,
                    std::int32_t chunks) {
  const double share = held_from(work.parallel, 1, parameters).total();
  const double bytes =
      share * (2.0 * work.optimizer_bytes + kOptimizerOtherBytes) + parameters.total() * work.gradient_bytes;
  const DeviceType& device = work.device;
  return {.reduction_s = reduction_seconds(work, kernels, parameters, chunks),
          .optimizer_s =
              bytes / (device.memory_efficiency * device.memory_bytes_per_second) + kOptimizerLaunchSeconds};
}

RankStep longest_step(const Workload& work, const KernelTables& kernels, std::span<const StagePrice> stages,
                      std::span<const std::int32_t> rank_of_stage) {
  std::map<std::int32_t, DeviceParameters> held;
  for (std::size_t i = 0; i < stages.size(); ++i) held[rank_of_stage[i]] += stages[i].parameters;
  RankStep longest;
  for (const auto& [rank, parameters] : held) {
    const RankStep step = price_step(work, kernels, parameters, stages_on(rank_of_stage, rank));
    if (step.total_s() > longest.total_s()) longest = step;
  }
  return longest;
}

}  // namespace penstock
