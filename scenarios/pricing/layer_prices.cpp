// Prices each kind of layer once, because a model with a hundred layers has only two or three kinds.
// stage_prices.cpp adds up the prices for a stage, also in a search over many cuts. Tested by
// pricing_test.cpp.

#include "scenarios/pricing/layer_prices.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/weight_copies.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {
namespace {

PassTimes times_of(const std::vector<Term>& terms) {
  const Term sum = total_of(terms);
  return {.forward_s = sum.forward,
          .backward_input_s = sum.backward_input,
          .backward_weight_s = sum.backward_weight,
          .shown = shown_collectives(terms)};
}

LayerPrice price_of(const Workload& work, const KernelTables& kernels, const LayerKind& kind) {
  const DeviceParameters parameters = layer_device_parameters(work, kind);
  return {.times = times_of(layer_terms(work, kernels, kind)),
          .kept_bytes = kept_bytes(work, kind),
          .recomputed_bytes = recomputed_bytes(work, kind),
          .transient_bytes = layer_transient_bytes(work, kind) + whole_layer_bytes(work, parameters),
          .recomputed_at_once = recomputed_at_once(work, kind),
          .next_weight_bytes = whole_weight_bytes(work, parameters),
          .parameters = parameters};
}

/// Returns the price of the embedding. Its look-up takes almost no time, but sharded weights must be gathered
/// first.
EmbeddingPrice embedding_of(const Workload& work, const KernelTables& kernels) {
  const DeviceParameters parameters = embedding_device_parameters(work);
  return {.times = times_of(embedding_terms(work, kernels)),
          .transient_bytes = whole_layer_bytes(work, parameters),
          .next_weight_bytes = whole_weight_bytes(work, parameters),
          .parameters = parameters};
}

HeadPrice head_of(const Workload& work, const KernelTables& kernels) {
  const DeviceParameters alone = head_device_parameters(work, false);
  HeadPrice head{.times = times_of(head_terms(work, kernels)),
                 .transient_bytes = head_transient_bytes(work) + whole_layer_bytes(work, alone),
                 .next_weight_bytes = whole_weight_bytes(work, alone),
                 .parameters = alone,
                 .beside_embedding = head_device_parameters(work, true)};
  if (work.model.multi_token == 0) return head;
  // A prediction layer needs no more transient memory than the layer before it or the head needs.
  const LayerPrice one{.times = times_of(multi_token_terms(work, kernels)),
                       .kept_bytes = kept_bytes(work, work.model.layers.back()),
                       .recomputed_bytes = recomputed_bytes(work, work.model.layers.back()),
                       .parameters = multi_token_device_parameters(work)};
  head.multi_token.assign(static_cast<std::size_t>(work.model.multi_token), one);
  return head;
}

}  // namespace

LayerPrices::LayerPrices(const Workload& work, const KernelTables& kernels)
    : embedding_(embedding_of(work, kernels)), head_(head_of(work, kernels)) {
  std::vector<LayerKind> known;
  kind_of_layer_.reserve(work.model.layers.size());
  for (const LayerKind& kind : work.model.layers) {
    const auto found = std::ranges::find(known, kind);
    kind_of_layer_.push_back(static_cast<std::size_t>(found - known.begin()));
    if (found != known.end()) continue;
    // Kinds is a set of kMostKinds bits.
    if (known.size() == kMostKinds) throw std::logic_error("a model of more kinds of layers than are priced");
    known.push_back(kind);
    kinds_.push_back({.price = price_of(work, kernels, kind), .shapes = weight_shapes(work, kind)});
  }
}

double LayerPrices::placeholder_bytes(const Kinds& kinds) const {
  WeightShapes together;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    if (kinds[kind]) together.insert(kinds_[kind].shapes.begin(), kinds_[kind].shapes.end());
  }
  return penstock::placeholder_bytes(together);
}

}  // namespace penstock
