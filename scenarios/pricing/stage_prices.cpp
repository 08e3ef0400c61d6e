// A stage is its layers, with the embedding before the first and the head behind the last:
//
//   time       = sum of its terms
//   bytes kept = sum over its layers
//   weights    = those of its layers and ends

#include "scenarios/pricing/stage_prices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

/// Of a weight of the embedding, the head or a norm.
constexpr double kEndBytes = 2;

void add_times(StagePrice& stage, const PassTimes& times) {
  stage.forward_s += times.forward_s;
  stage.backward_input_s += times.backward_input_s;
  stage.backward_weight_s += times.backward_weight_s;
  stage.shown += times.shown;
}

void add_layer(StagePrice& stage, const LayerPrice& layer) {
  add_times(stage, layer.times);
  stage.kept_bytes += layer.kept_bytes;
  stage.transient_bytes = std::max(stage.transient_bytes, layer.transient_bytes);
  stage.parameters += layer.parameters;
}

/// The gradient of the logits and the head's input stay (Megatron-LM's defer_embedding_wgrad_compute). They
/// are a device's: columns of the vocabulary, and the sequence's part of the input.
void put_off(StagePrice& stage, const Workload& work, const PassTimes& head) {
  constexpr double kBytesPerValue = 2;
  stage.backward_weight_s -= head.backward_weight_s;
  stage.deferred_s = head.backward_weight_s;
  stage.deferred_bytes = kBytesPerValue * work.tokens() *
                         static_cast<double>(work.model.vocabulary + work.model.hidden) /
                         work.parallel.tensor;
}

void add_embedding(StagePrice& stage, const EmbeddingPrice& embedding) {
  add_times(stage, embedding.times);
  stage.parameters += embedding.parameters;
  stage.transient_bytes = std::max(stage.transient_bytes, embedding.transient_bytes);
}

void add_head(StagePrice& stage, const Workload& work, const HeadPrice& head, bool beside_embedding) {
  for (const LayerPrice& layer : head.multi_token) add_layer(stage, layer);
  add_times(stage, head.times);
  if (work.deferred_head) put_off(stage, work, head.times);
  stage.parameters += beside_embedding ? head.beside_embedding : head.parameters;
  stage.transient_bytes = std::max(stage.transient_bytes, head.transient_bytes);
}

/// Bytes of weights: norms, embedding and head stay in 2 bytes, which only 8 bit weights would notice.
void add_static_bytes(StagePrice& stage, const Workload& work, const DeviceParameters& ends) {
  // The levels of sharding: 1 shares out the optimizer's state, 2 the gradients, too, and 3 the weights as
  // well.
  const DeviceParameters& own = stage.parameters;
  stage.updated_parameters = held_from(work.parallel, 1, own).total();
  const double gradients = held_from(work.parallel, 2, own).total();
  const double weights = held_from(work.parallel, 3, own).total();
  const double of_ends = held_from(work.parallel, 3, ends).total();
  stage.weight_bytes = weight_bytes(work) * (weights - of_ends) + kEndBytes * of_ends;
  stage.gradient_bytes = work.gradient_bytes * gradients;
  stage.optimizer_bytes = work.optimizer_bytes * stage.updated_parameters;
}

/// By rank, of the kinds of layers that are on it. Neighbours mostly have the same ones.
std::vector<double> placeholder_bytes(const LayerPrices& prices, std::span<const LayerPrices::Kinds> kinds) {
  std::vector<double> bytes;
  bytes.reserve(kinds.size());
  for (const LayerPrices::Kinds& of_rank : kinds) {
    const bool is_as_before = !bytes.empty() && of_rank == kinds[bytes.size() - 1];
    bytes.push_back(is_as_before ? bytes.back() : prices.placeholder_bytes(of_rank));
  }
  return bytes;
}

}  // namespace

std::vector<StagePrice> price_stages(const Workload& work, const LayerPrices& layer_prices,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage) {
  const std::size_t stages = layers.size();
  std::vector<StagePrice> prices(stages);
  std::vector<LayerPrices::Kinds> kinds(static_cast<std::size_t>(std::ranges::max(rank_of_stage)) + 1);
  std::vector<DeviceParameters> ends(stages);
  std::size_t next = 0;
  for (std::size_t i = 0; i < stages; ++i) {
    StagePrice& stage = prices[i];
    for (std::int64_t n = 0; n < layers[i]; ++n, ++next) {
      add_layer(stage, layer_prices.of_layer(next));
      kinds[index(rank_of_stage[i])].set(layer_prices.kind_of_layer(next));
    }
    // What the embedding and the head add from here on are the ends' parameters. One stage has both.
    const double before = stage.parameters.dense;
    if (i == 0) add_embedding(stage, layer_prices.embedding());
    if (i + 1 == stages) {
      add_head(stage, work, layer_prices.head(), rank_of_stage.front() == rank_of_stage.back());
    } else {
      stage.edge_bytes = 2 * work.tokens() * static_cast<double>(work.model.hidden) / work.parallel.tensor;
    }
    ends[i].dense = stage.parameters.dense - before;
  }
  const std::vector<double> placeholders = placeholder_bytes(layer_prices, kinds);
  // Only now is it known which kinds of layers all stages of a rank have.
  for (std::size_t i = 0; i < stages; ++i) {
    prices[i].transient_bytes += placeholders[index(rank_of_stage[i])] + kOtherBytes;
    add_static_bytes(prices[i], work, ends[i]);
  }
  return prices;
}

std::vector<StagePrice> price_stages(const Workload& work, const KernelTables& kernels,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage) {
  return price_stages(work, LayerPrices(work, kernels), layers, rank_of_stage);
}

}  // namespace penstock
