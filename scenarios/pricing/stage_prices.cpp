// Prices stages. A stage is its layers, with the embedding before the first and the head after the last:
//
//   time       = sum of its terms
//   bytes held = sum over its layers
//   weights    = those of its layers and ends
//
// Tested by pricing_test.cpp.

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

/// The bytes of a weight of the embedding, the head or a norm.
constexpr double kEndBytes = 2;

void add_times(StagePrice& stage, const PassTimes& times) {
  stage.forward_s += times.forward_s;
  stage.backward_input_s += times.backward_input_s;
  stage.backward_weight_s += times.backward_weight_s;
  stage.shown += times.shown;
  stage.compute += times.compute();
}

/// Adds the transient bytes of a part of a stage. Layers and ends run one after the other, so the stage holds
/// what the largest needs. I and W count `recomputed` of it elsewhere. If `part` is the only one of its rank,
/// no next part is gathered beside it.
template <typename Part>
void add_transient(StagePrice& stage, const Part& part, double recomputed, bool is_alone) {
  const double bytes = part.transient_bytes + (is_alone ? 0 : part.next_weight_bytes);
  const double of_split = std::max(stage.transient_bytes - stage.recomputed_at_once, bytes - recomputed);
  stage.transient_bytes = std::max(stage.transient_bytes, bytes);
  stage.recomputed_at_once = stage.transient_bytes - of_split;
}

void add_layer(StagePrice& stage, const LayerPrice& layer, bool is_alone) {
  add_times(stage, layer.times);
  stage.last_compute = layer.times.compute();
  stage.kept_bytes += layer.kept_bytes;
  stage.recomputed_bytes += layer.recomputed_bytes;
  add_transient(stage, layer, layer.recomputed_at_once, is_alone);
  stage.parameters += layer.parameters;
}

/// Defers the head's weight gradient (Megatron-LM's defer_embedding_wgrad_compute). Until then the device
/// holds its columns of the logits' gradient and its part of the head's input.
void put_off(StagePrice& stage, const Workload& work, const PassTimes& head) {
  constexpr double kBytesPerValue = 2;
  stage.backward_weight_s -= head.backward_weight_s;
  stage.compute.backward_s -= head.backward_weight_s;
  stage.last_compute.backward_s -= head.backward_weight_s;
  stage.deferred_s = head.backward_weight_s;
  stage.deferred_bytes = kBytesPerValue * work.tokens() *
                         static_cast<double>(work.model.vocabulary + work.model.hidden) /
                         work.parallel.tensor;
}

void add_embedding(StagePrice& stage, const EmbeddingPrice& embedding, bool is_alone) {
  add_times(stage, embedding.times);
  stage.parameters += embedding.parameters;
  add_transient(stage, embedding, 0, is_alone);
}

void add_head(StagePrice& stage, const Workload& work, const HeadPrice& head, bool beside_embedding,
              bool is_alone) {
  for (const LayerPrice& layer : head.multi_token) add_layer(stage, layer, is_alone);
  add_times(stage, head.times);
  stage.last_compute = head.times.compute();
  if (work.deferred_head) put_off(stage, work, head.times);
  stage.parameters += beside_embedding ? head.beside_embedding : head.parameters;
  add_transient(stage, head, 0, is_alone);
}

/// Adds the bytes of weights. Norms, embedding and head always have 2 bytes, which differs only from 8-bit
/// weights.
void add_static_bytes(StagePrice& stage, const Workload& work, const DeviceParameters& ends) {
  // Sharding 1 divides the optimizer's state, 2 also the gradients, 3 also the weights.
  const DeviceParameters& own = stage.parameters;
  stage.updated_parameters = held_from(work.parallel, 1, own).total();
  const double gradients = held_from(work.parallel, 2, own).total();
  const double weights = held_from(work.parallel, 3, own).total();
  const double of_ends = held_from(work.parallel, 3, ends).total();
  stage.weight_bytes = weight_bytes(work) * (weights - of_ends) + kEndBytes * of_ends;
  stage.gradient_bytes = work.gradient_bytes * gradients;
  stage.optimizer_bytes = work.optimizer_bytes * stage.updated_parameters;
}

/// Returns the placeholders of each rank for its kinds of layers. Adjacent ranks mostly have the same kinds,
/// so the previous result is reused.
std::vector<double> placeholder_bytes(const LayerPrices& prices, std::span<const LayerPrices::Kinds> kinds) {
  std::vector<double> bytes;
  bytes.reserve(kinds.size());
  for (const LayerPrices::Kinds& of_rank : kinds) {
    const bool is_as_before = !bytes.empty() && of_rank == kinds[bytes.size() - 1];
    bytes.push_back(is_as_before ? bytes.back() : prices.placeholder_bytes(of_rank));
  }
  return bytes;
}

/// Returns for each rank the number of parts that it gathers one after the other under sharding 3: the layers
/// of its stages, and the ends.
std::vector<std::int64_t> parts_of_ranks(std::span<const std::int64_t> layers,
                                         std::span<const std::int32_t> rank_of_stage, std::size_t ranks) {
  std::vector<std::int64_t> parts(ranks);
  for (std::size_t i = 0; i < layers.size(); ++i) parts[index(rank_of_stage[i])] += layers[i];
  ++parts[index(rank_of_stage.front())];  // the embedding
  ++parts[index(rank_of_stage.back())];   // the head
  return parts;
}

}  // namespace

std::vector<StagePrice> price_stages(const Workload& work, const LayerPrices& layer_prices,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage) {
  const std::size_t stages = layers.size();
  std::vector<StagePrice> prices(stages);
  std::vector<LayerPrices::Kinds> kinds(static_cast<std::size_t>(std::ranges::max(rank_of_stage)) + 1);
  const std::vector<std::int64_t> parts = parts_of_ranks(layers, rank_of_stage, kinds.size());
  std::vector<DeviceParameters> ends(stages);
  std::size_t next = 0;
  for (std::size_t i = 0; i < stages; ++i) {
    StagePrice& stage = prices[i];
    const bool is_alone = parts[index(rank_of_stage[i])] == 1;
    for (std::int64_t n = 0; n < layers[i]; ++n, ++next) {
      add_layer(stage, layer_prices.of_layer(next), is_alone);
      kinds[index(rank_of_stage[i])].set(layer_prices.kind_of_layer(next));
    }
    // The embedding and the head add the parameters of the ends. A single stage has both.
    const double before = stage.parameters.dense;
    if (i == 0) add_embedding(stage, layer_prices.embedding(), is_alone);
    if (i + 1 == stages) {
      add_head(stage, work, layer_prices.head(), rank_of_stage.front() == rank_of_stage.back(), is_alone);
    } else {
      stage.edge_bytes = 2 * work.tokens() * static_cast<double>(work.model.hidden) / work.parallel.tensor;
    }
    ends[i].dense = stage.parameters.dense - before;
  }
  const std::vector<double> placeholders = placeholder_bytes(layer_prices, kinds);
  // Only now the kinds of layers of all stages of a rank are known.
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
