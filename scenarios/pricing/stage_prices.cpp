// Computes the prices (times and bytes) of stages. A stage has layers. The first stage also has the
// embedding, and the last stage also has the head. The price of a stage is the sum of the times, stored
// bytes and weights of these parts. Tested by pricing_test.cpp.

#include "scenarios/pricing/stage_prices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <vector>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/collectives.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

/// The bytes of one weight of the embedding, the head or a norm.
constexpr double kEndBytes = 2;

void add_times(StagePrice& stage, const PassTimes& times) {
  stage.forward_s += times.forward_s;
  stage.backward_input_s += times.backward_input_s;
  stage.backward_weight_s += times.backward_weight_s;
  stage.shown += times.shown;
  stage.compute += times.compute();
}

/// Updates the transient bytes of a stage for one of its parts (a layer, the embedding or the head). The
/// parts run one after another, so the stage needs the maximum over them. The argument `recomputed` is the
/// part of these bytes that is counted separately for I and W. If `is_alone` is true, `part` is the only part
/// on its rank. No other part is then gathered at the same time.
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
  stage.released_by_input += layer.released_by_input;
  stage.recomputed_bytes += layer.recomputed_bytes;
  add_transient(stage, layer, layer.recomputed_at_once, is_alone);
  stage.parameters += layer.parameters;
}

// Full recomputation of some layers only (Megatron-LM's --recompute-method). In a stage of 8 layers, r is
// recomputed and . is not:
//
//   block 3      r r r . . . . .     each r stores its input
//   uniform 4    r r r r r r r r     the first of 4 stores its input; their activations come back together

/// Returns true if full recomputation applies to only some layers, or treats groups of layers as one unit.
bool is_partial(const Workload& work) {
  return work.recompute == LayerRecompute::full &&
         work.recomputed_layers.method != RecomputedLayers::Method::all;
}

/// The position of a layer: its number in the model, its index in its stage, and the number of layers in
/// this stage.
struct LayerPlace {
  std::size_t layer;
  std::int64_t position;
  std::int64_t of;
};

/// Returns the price of a layer in a group of layers that are recomputed together. Only the first layer of
/// the group stores its input. Its backward pass is the last of the group. From the recomputation on, the
/// device holds the activations of the whole group.
LayerPrice price_in_group(const LayerPrices& prices, std::int64_t group, const LayerPlace& place) {
  LayerPrice price = prices.of_layer(place.layer);
  if (place.position % group != 0) {
    price.recomputed_bytes += price.kept_bytes;
    price.kept_bytes = 0;
    return price;
  }
  for (std::int64_t next = 1; next < std::min(group, place.of - place.position); ++next) {
    const double others = prices.of_layer(place.layer + static_cast<std::size_t>(next)).recomputed_at_once;
    price.transient_bytes += others;
    price.recomputed_at_once += others;
  }
  return price;
}

/// Returns the price of a layer if full recomputation applies to only some layers or to groups of layers
/// (Workload::recomputed_layers).
LayerPrice partial_price(const Workload& work, const LayerPrices& prices, const LayerPlace& place) {
  const RecomputedLayers& recomputed = work.recomputed_layers;
  switch (recomputed.method) {
    case RecomputedLayers::Method::all:
      break;
    case RecomputedLayers::Method::uniform:
      return price_in_group(prices, recomputed.count, place);
    case RecomputedLayers::Method::block:
      if (place.position >= recomputed.count) return prices.of_plain_layer(place.layer);
      break;
    case RecomputedLayers::Method::listed:
      if (!std::ranges::binary_search(recomputed.layers, static_cast<std::int64_t>(place.layer)))
        return prices.of_plain_layer(place.layer);
      break;
  }
  return prices.of_layer(place.layer);
}

/// Moves the computation of the head's weight gradient to the end of the step (Megatron-LM's
/// defer_embedding_wgrad_compute). Until then, the device stores its columns of the logits' gradient, and
/// its part of the head's input.
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
  // Each layer of multi-token prediction has a head of its own, wherever the layer is.
  for (std::size_t i = 0; i < head.multi_token.size(); ++i) add_times(stage, head.times);
  add_times(stage, head.times);
  stage.last_compute = head.times.compute();
  if (work.deferred_head) put_off(stage, work, head.times);
  stage.parameters += beside_embedding ? head.beside_embedding : head.parameters;
  add_transient(stage, head, 0, is_alone);
}

/// Adds the bytes of weights, gradients and optimizer state. Weights of norms, the embedding and the head
/// always have 2 bytes. Weights of layers may have 8 bits.
void add_static_bytes(StagePrice& stage, const Workload& work, const DeviceParameters& ends) {
  // Sharding 1 divides the optimizer state among the copies. Sharding 2 also divides the gradients, and
  // sharding 3 also divides the weights.
  const DeviceParameters& own = stage.parameters;
  stage.updated_parameters = held_from(work.parallel, 1, own).total();
  const double gradients = held_from(work.parallel, 2, own).total();
  const double weights = held_from(work.parallel, 3, own).total();
  const double of_ends = held_from(work.parallel, 3, ends).total();
  stage.weight_bytes = weight_bytes(work) * (weights - of_ends) + kEndBytes * of_ends;
  stage.gradient_bytes = work.gradient_bytes * gradients;
  stage.optimizer_bytes = work.optimizer_bytes * stage.updated_parameters;
}

/// The layers of a stage, from `begin` to before `end`.
struct LayerRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Returns the seconds that a stage saves if its F and B run as an overlapped pair. Only exchanges of
/// experts can be hidden. The head computes after the layers in F, and before them in B.
double hidden_in_pair(const Workload& work, const LayerPrices& prices, const LayerRange& range,
                      bool has_head) {
  if (!work.model.experts || work.parallel.expert <= 1) return 0;
  std::vector<LayerPasses> passes;
  passes.reserve(range.end - range.begin + 1);
  for (std::size_t layer = range.begin; layer < range.end; ++layer)
    passes.push_back(prices.of_layer(layer).passes);
  if (std::ranges::none_of(passes, &LayerPasses::exchanges)) return 0;
  if (has_head) {
    passes.push_back(prices.head().passes);
    // Work that is deferred to the end of the step cannot hide an exchange.
    if (work.deferred_head) passes.back().weight = {};
  }
  return hidden_seconds(passes);
}

/// Returns the bytes of placeholders for gradients on each rank. They depend on the kinds of layers on the
/// rank. Adjacent ranks mostly have the same kinds, so the result of the previous rank is reused.
std::vector<double> placeholder_bytes(const LayerPrices& prices, std::span<const LayerPrices::Kinds> kinds) {
  std::vector<double> bytes;
  bytes.reserve(kinds.size());
  for (const LayerPrices::Kinds& of_rank : kinds) {
    const bool is_as_before = !bytes.empty() && of_rank == kinds[bytes.size() - 1];
    bytes.push_back(is_as_before ? bytes.back() : prices.placeholder_bytes(of_rank));
  }
  return bytes;
}

/// Returns, for each rank, the number of parts that it gathers one after the other under sharding 3. Parts
/// are the layers, the embedding and the head.
std::vector<std::int64_t> parts_of_ranks(std::span<const std::int64_t> layers,
                                         std::span<const std::int32_t> rank_of_stage, std::size_t ranks) {
  std::vector<std::int64_t> parts(ranks);
  for (std::size_t i = 0; i < layers.size(); ++i) parts[index(rank_of_stage[i])] += layers[i];
  ++parts[index(rank_of_stage.front())];  // the embedding
  ++parts[index(rank_of_stage.back())];   // the head
  return parts;
}

/// Returns the number of multi-token-prediction layers on each stage. They are all on the last stage,
/// unless the workload states the stage of each of them.
std::vector<std::int64_t> predictions_of(const Workload& work, std::size_t stages) {
  const std::vector<std::int64_t>& stated = work.predictions;
  const std::int64_t sum = std::accumulate(stated.begin(), stated.end(), std::int64_t{0});
  if (stated.size() == stages && sum == work.model.multi_token) return stated;
  std::vector<std::int64_t> predictions(stages);
  predictions.back() = work.model.multi_token;
  return predictions;
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
  const std::vector<std::int64_t> predictions = predictions_of(work, stages);
  // The number of results that a stage sends: the model's, and those of earlier predictions.
  std::int64_t results = 1;
  std::size_t next = 0;
  for (std::size_t i = 0; i < stages; ++i) {
    StagePrice& stage = prices[i];
    stage.action_seconds = work.action_seconds;
    const bool is_alone = parts[index(rank_of_stage[i])] == 1;
    for (std::int64_t n = 0; n < layers[i]; ++n, ++next) {
      if (is_partial(work)) {
        add_layer(stage, partial_price(work, layer_prices, {.layer = next, .position = n, .of = layers[i]}),
                  is_alone);
      } else {
        add_layer(stage, layer_prices.of_layer(next), is_alone);
      }
      kinds[index(rank_of_stage[i])].set(layer_prices.kind_of_layer(next));
    }
    for (std::int64_t n = 0; n < predictions[i]; ++n)
      add_layer(stage, layer_prices.head().multi_token.front(), is_alone);
    results += predictions[i];
    // A single stage has both the embedding and the head.
    const double before = stage.parameters.dense;
    stage.pair_hidden_s =
        hidden_in_pair(work, layer_prices, {.begin = next - static_cast<std::size_t>(layers[i]), .end = next},
                       i + 1 == stages);
    if (i == 0) add_embedding(stage, layer_prices.embedding(), is_alone);
    if (i + 1 == stages) {
      add_head(stage, work, layer_prices.head(), rank_of_stage.front() == rank_of_stage.back(), is_alone);
    } else {
      // The results of multi-token prediction go on to the head, which is on the last stage.
      stage.edge_bytes = static_cast<double>(results) * 2 * work.tokens() *
                         static_cast<double>(work.model.hidden) / work.parallel.tensor;
    }
    ends[i].dense = stage.parameters.dense - before;
  }
  const std::vector<double> placeholders = placeholder_bytes(layer_prices, kinds);
  // Placeholders are added last, because they depend on the kinds of layers in all stages of a rank.
  for (std::size_t i = 0; i < stages; ++i) {
    prices[i].transient_bytes += placeholders[index(rank_of_stage[i])] + kOtherBytes;
    add_static_bytes(prices[i], work, ends[i]);
  }
  return prices;
}

namespace {

/// Returns the kernel tables for the devices of a rank. `kernels` are the tables for the devices of the first
/// ranks.
const KernelTables& kernels_of_rank(const Workload& work, const KernelTables& kernels, std::int32_t rank) {
  const RankDevices* const later = later_devices_of(work, rank);
  return later == nullptr ? kernels : *later->kernels;
}

}  // namespace

std::vector<StagePrice> price_stages(const Workload& work, const KernelTables& kernels,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage) {
  return price_stages(work, layer_prices_of_kinds(work, kernels), layers, rank_of_stage);
}

std::vector<LayerPrices> layer_prices_of_kinds(const Workload& work, const KernelTables& kernels) {
  std::vector<LayerPrices> of_kinds;
  of_kinds.reserve(1 + work.later_devices.size());
  if (work.later_devices.empty()) {
    of_kinds.emplace_back(work, kernels);
    return of_kinds;
  }
  of_kinds.emplace_back(on_devices_of_rank(work, 0), kernels);
  for (const RankDevices& later : work.later_devices)
    of_kinds.emplace_back(on_devices_of_rank(work, later.first_rank), *later.kernels);
  return of_kinds;
}

std::vector<StagePrice> price_stages(const Workload& work, std::span<const LayerPrices> of_kinds,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage) {
  if (work.later_devices.empty()) return price_stages(work, of_kinds.front(), layers, rank_of_stage);
  // For each kind of device, all stages are priced as if all ranks had this kind. Each stage then takes the
  // price for the kind of its own devices.
  std::vector<StagePrice> prices(layers.size());
  for (std::size_t kind = 0; kind < of_kinds.size(); ++kind) {
    const std::int32_t first = kind == 0 ? 0 : work.later_devices[kind - 1].first_rank;
    const Workload alike = on_devices_of_rank(work, first);
    const std::vector<StagePrice> all = price_stages(alike, of_kinds[kind], layers, rank_of_stage);
    for (std::size_t i = 0; i < all.size(); ++i) {
      // A kind of device that begins at a later rank replaces the price of the earlier kinds.
      if (rank_of_stage[i] >= first) prices[i] = all[i];
    }
  }
  return prices;
}

// The prices of each kind of layer are computed only once, because a model with a hundred layers has only two
// or three kinds. A search over many cuts uses the same prices.

namespace {

PassTimes times_of(const Workload& work, const std::vector<Term>& terms) {
  const Term sum = total_of(terms);
  ShownCollectives shown = shown_collectives(terms);
  if (work.is_forward_only()) return {.forward_s = sum.forward, .shown = {.gathered_s = shown.gathered_s}};
  shown.layers = 1;
  return {.forward_s = sum.forward,
          .backward_input_s = sum.backward_input,
          .backward_weight_s = sum.backward_weight,
          .shown = shown};
}

LayerPrice price_of(const Workload& work, const KernelTables& kernels, const LayerKind& kind) {
  const DeviceParameters parameters = layer_device_parameters(work, kind);
  const std::vector<Term> terms = layer_terms(work, kernels, kind);
  if (work.is_forward_only()) {
    return {.times = times_of(work, terms),
            .passes = passes_of(terms),
            .kept_bytes = work.passes == Passes::forward_kv ? cached_bytes(work, kind) : 0,
            .transient_bytes = forward_bytes(work, kind) + whole_layer_bytes(work, parameters),
            .next_weight_bytes = whole_weight_bytes(work, parameters),
            .parameters = parameters};
  }
  return {.times = times_of(work, terms),
          .passes = passes_of(terms),
          .kept_bytes = kept_bytes(work, kind),
          .released_by_input = released_by_input(work, kind),
          .recomputed_bytes = recomputed_bytes(work, kind),
          .transient_bytes = layer_transient_bytes(work, kind) + whole_layer_bytes(work, parameters),
          .recomputed_at_once = recomputed_at_once(work, kind),
          .next_weight_bytes = whole_weight_bytes(work, parameters),
          .parameters = parameters};
}

/// Returns the prices of the embedding. The look-up takes almost no time. With sharded weights, it must
/// wait until they are gathered.
EmbeddingPrice embedding_of(const Workload& work, const KernelTables& kernels) {
  const DeviceParameters parameters = embedding_device_parameters(work);
  return {.times = times_of(work, embedding_terms(work, kernels)),
          .transient_bytes = whole_layer_bytes(work, parameters),
          .next_weight_bytes = whole_weight_bytes(work, parameters),
          .parameters = parameters};
}

HeadPrice head_of(const Workload& work, const KernelTables& kernels) {
  const DeviceParameters alone = head_device_parameters(work, false);
  const std::vector<Term> terms = head_terms(work, kernels);
  HeadPrice head{.times = times_of(work, terms),
                 .passes = passes_of(terms),
                 .transient_bytes = head_transient_bytes(work) + whole_layer_bytes(work, alone),
                 .next_weight_bytes = whole_weight_bytes(work, alone),
                 .parameters = alone,
                 .beside_embedding = head_device_parameters(work, true)};
  if (work.model.multi_token == 0) return head;
  const LayerKind kind = prediction_kind(work.model);
  const LayerPrice one{.times = times_of(work, prediction_terms(work, kernels)),
                       .kept_bytes = kept_bytes(work, kind),
                       .released_by_input = released_by_input(work, kind),
                       .recomputed_bytes = recomputed_bytes(work, kind),
                       .transient_bytes = layer_transient_bytes(work, kind),
                       .recomputed_at_once = recomputed_at_once(work, kind),
                       .parameters = multi_token_device_parameters(work)};
  head.multi_token.assign(static_cast<std::size_t>(work.model.multi_token), one);
  return head;
}

}  // namespace

LayerPrices::LayerPrices(const Workload& work, const KernelTables& kernels)
    : embedding_(embedding_of(work, kernels)), head_(head_of(work, kernels)) {
  std::vector<LayerKind> known;
  std::optional<Workload> plain;
  if (is_partial(work)) {
    plain = work;
    plain->recompute = LayerRecompute::none;
  }
  kind_of_layer_.reserve(work.model.layers.size());
  for (const LayerKind& kind : work.model.layers) {
    const auto found = std::ranges::find(known, kind);
    kind_of_layer_.push_back(static_cast<std::size_t>(found - known.begin()));
    if (found != known.end()) continue;
    // Kinds is a set of kMostLayerKinds bits.
    if (known.size() == kMostLayerKinds)
      throw std::logic_error("a model of more kinds of layers than are priced");
    known.push_back(kind);
    const bool holds_placeholders = traits_of(work.framework).holds_placeholders && !work.is_forward_only();
    kinds_.push_back({.price = price_of(work, kernels, kind),
                      .shapes = holds_placeholders ? weight_shapes(work, kind) : WeightShapes{}});
    if (plain) plain_.push_back(price_of(*plain, kernels, kind));
  }
}

double LayerPrices::placeholder_bytes(const Kinds& kinds) const {
  WeightShapes together;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    if (kinds[kind]) together.insert(kinds_[kind].shapes.begin(), kinds_[kind].shapes.end());
  }
  return penstock::placeholder_bytes(together);
}

// Computes the step of a rank. Once a step, the copies of a rank reduce their gradients. Each copy updates a
// part of the weights, and then all copies gather the weights. Both exchanges are divided into buckets
// (Parallel::bucket_size) and overlap with other passes:
//
//   backward of the last microbatch    | last layer | the other layers, in reverse    |
//   reduction                                       | bucket | bucket | ..   | bucket |  exposed
//
//   forward of the first microbatch              | the layers in their order | last layer |
//   gathering                           | bucket | bucket | ..   | bucket |
//
// The first gradients are complete after the backward pass of the last layer. From then on, the reduction
// overlaps with the backward pass, but the last bucket is complete only at the end of this pass. Similarly,
// the first bucket of weights must be gathered before any layer can run. Other buckets are gathered while
// layers run:
//
//   exposed reduction = max(last bucket, reduction - backward after the last layer)
//   exposed gathering = max(first bucket, gathering - forward before the last layer)
//
// If a rank has several stages, the layers of all its stages are counted. Over the network, a share of the
// reduction (DeviceType::step_fraction) is exposed in addition. Without overlap, the whole reduction is
// exposed.
//
// With sharding 2 and 3, the scatter of the last microbatch is the reduction. With sharding 3, the gather of
// the first microbatch is the gathering (collectives.cpp). The same formulas apply to them. Otherwise more
// sharding would seem to make the step faster. The buckets are then layers. With sharding 3, the backward
// pass also gathers weights. The computation that hides this gathering does not hide the reduction, because
// both need the same link. The time that is already exposed in microbatches is not counted again:
//
//   M (exposed in a microbatch)  +  max(0, exposed once a step - exposed in a microbatch)
//
// The optimizer reads and writes its part once: weights in 4 bytes, two moments, gradients and new weights.
// Tested by pricing_test.cpp and weight_copies_test.cpp.

namespace {

constexpr double kOptimizerLaunchSeconds = 0.3e-3;  // the time to launch the optimizer's kernels, once a step
/// The bytes that the optimizer moves for a parameter in addition to its state: the gradient (4), the weight
/// (2), and both again (4 + 4).
constexpr double kOptimizerOtherBytes = 4 + 2 + 4 + 4;

/// The parameters in all stages of a rank, and the computation that can overlap with the exchange of these
/// parameters.
struct RankParameters {
  DeviceParameters held;
  double updated = 0;
  ShownCollectives shown;
  /// The computation of one microbatch in all layers except the last one of the forward pass.
  ComputeSeconds beside;
};

/// Returns the seconds of the optimizer, which are limited by the rate of the device's memory. The
/// optimizer reads and writes the parameters that it updates. In addition, it reads all gradients of the
/// device for the gradient norm, and sets them to 0.
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
  const double buckets = std::max(1.0, parameters.total() / static_cast<double>(parallel.bucket_size));
  const double layers = shown.layers > 0 ? shown.layers : buckets;
  // If gradients are scattered in microbatches, each layer has its own collectives, one after the other. In
  // contrast, all of Megatron's buckets together have the latency of one collective. If each bucket had the
  // latency of a ring, the predictions would be much too long. For GPT-3 on 4096 H100 they would be 9.4 %
  // longer than measured instead of 3.1 %. For Llama 405B on 8192 H100 they would be 4.7 % longer instead of
  // 0.8 %. The reason is that such clusters do not reduce in plain rings, but in switches (SHARP) or trees.
  const bool is_by_layer = parallel.sharding_between_steps() >= 2;
  const double collectives = is_by_layer ? layers : 1;
  const double exchanges = is_by_layer ? std::min(buckets, layers) : buckets;
  const auto seconds = [&](GroupOperation operation, double bytes) {
    return copies_seconds(work, kernels, operation, parameters, bytes, collectives);
  };
  // If the optimizer state is divided, each copy needs only the sums of its own part of the gradients. After
  // the update, it needs the weights that the other copies have updated.
  const bool scatters = parallel.sharding > 0;
  const double reduce_s =
      seconds(scatters ? GroupOperation::reduce_scatter : GroupOperation::all_reduce, work.gradient_bytes);
  const double gather_s = scatters ? seconds(GroupOperation::all_gather, gathered_bytes(work)) : 0;
  const auto exposed = [&](double all_s, double hidden_s) {
    return parallel.data_overlap ? std::max(all_s / exchanges, all_s - hidden_s) : all_s;
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
  // The last layer that a rank runs forward is in its last stage.
  std::set<std::int32_t> without_last;
  for (std::size_t i = stages.size(); i-- > 0;) {
    if (!without_last.insert(rank_of_stage[i]).second) continue;
    ComputeSeconds& beside = ranks[rank_of_stage[i]].beside;
    beside.forward_s -= stages[i].last_compute.forward_s;
    beside.backward_s -= stages[i].last_compute.backward_s;
  }
  // All ranks wait for the longest step, because an update needs the norm of all gradients.
  RankStep longest;
  std::optional<Workload> unlike;
  for (const auto& [rank, parameters] : ranks) {
    const Workload& own = work.later_devices.empty() ? work : unlike.emplace(on_devices_of_rank(work, rank));
    const double optimizer_s = optimizer_seconds(own, parameters);
    const RankStep step{
        .reduction_s = reduction_seconds(own, kernels_of_rank(work, kernels, rank), parameters.held,
                                         parameters.beside, parameters.shown),
        .optimizer_s = optimizer_s,
        .other_s = work.step_seconds};
    if (step.total_s() > longest.total_s()) longest = step;
  }
  return longest;
}

}  // namespace penstock
