// Counts the parameters and operations of a transformer. In the symbols of the papers: h hidden, a heads, g
// heads of keys and values, d head_dim, f feed_forward, V vocabulary, E experts, k experts for each token, e
// the inner width of an expert, s the inner width of the shared experts. A layer has these matrices:
//
//   attention      h (a + 2g) d + a d h                      grouped-query (arXiv:2305.13245)
//                  h q + q a (n + r)  or  h a (n + r)        latent (arXiv:2405.04434, section 2.1): queries,
//                  + h (c + r) + c a (n + v) + a v h         and keys and values; q, c ranks, n, r, v dims
//   feed-forward   3 h f gated (arXiv:2002.05202), else 2 h f
//   experts        h E + E 3 h e + 3 h s
//
// Each matrix multiplies every token once, which takes 2 operations for each weight. A token uses only k of
// the E experts. Biases, norms and attention sinks are vectors. The model has all layers, the final norm, and
// V h for the embedding. It also has V h for a head that is not tied, and h for each learned position. Tested
// by architecture_test.cpp.

#include "scenarios/architecture/architecture.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

/// The parameters of one part of a layer, as matrices and vectors.
struct Weights {
  Wide matrices = 0;
  Wide vectors = 0;

  Wide all() const { return matrices + vectors; }
};

Weights operator+(Weights left, Weights right) {
  return {.matrices = left.matrices + right.matrices, .vectors = left.vectors + right.vectors};
}

Weights operator*(Wide count, Weights weights) {
  return {.matrices = count * weights.matrices, .vectors = count * weights.vectors};
}

/// Returns `count` if `has` is true, and 0 otherwise.
Wide only_if(bool has, Wide count) { return has ? count : 0; }

/// Returns the parameters of one norm, including the biases of LayerNorm.
Wide norm(const Architecture& model) { return only_if(model.layer_norm, model.hidden) + model.hidden; }

/// Returns the weights of latent attention: the projections to the narrow ranks, and from these to each head.
/// All heads share the rotary part of keys (r), so it is projected directly from h.
Weights latent_attention(const Architecture& model, const LatentAttention& latent) {
  const Wide hidden = model.hidden;
  const Wide queries = static_cast<Wide>(model.heads) * (latent.content_dim + latent.rotary_dim);
  const Wide keys_and_values = static_cast<Wide>(model.heads) * (latent.content_dim + latent.value_dim);
  const Wide narrow = latent.kv_rank + latent.rotary_dim;
  const Wide query = latent.query_rank > 0 ? latent.query_rank * (hidden + queries)
                                           : hidden * queries;  // q = 0 means a single projection
  return {.matrices = query + hidden * narrow + latent.kv_rank * keys_and_values +
                      static_cast<Wide>(model.heads) * latent.value_dim * hidden,
          .vectors = latent.query_rank + latent.kv_rank +  // norms of the narrow projections
                     only_if(model.query_key_value_bias, latent.query_rank + narrow) +
                     only_if(model.output_bias, hidden)};
}

Weights attention(const Architecture& model) {
  if (model.latent) return latent_attention(model, *model.latent);
  const Wide hidden = model.hidden;
  const Wide queries = static_cast<Wide>(model.heads) * model.head_dim;
  const Wide keys = static_cast<Wide>(model.kv_heads) * model.head_dim;
  // The norm of queries and keys has separate weights for every head, or one set for all heads.
  const Wide normed = model.wide_query_key_norm ? queries + keys : 2 * static_cast<Wide>(model.head_dim);
  return {.matrices = hidden * (queries + 2 * keys) + queries * hidden,
          .vectors = only_if(model.query_key_value_bias, queries + 2 * keys) +
                     only_if(model.output_bias, hidden) + only_if(model.query_key_norm, normed) +
                     only_if(model.attention_sinks, model.heads)};
}

/// Returns the weights of a feed-forward part. If the inner width is 0 (no shared expert), only biases
/// remain.
Weights feed_forward(const Architecture& model, Wide inner, bool has_biases) {
  const Wide widened = model.gated ? 2 * inner : inner;
  return {.matrices = model.hidden * (widened + inner),
          .vectors = only_if(has_biases, widened + model.hidden)};
}

Weights expert(const Architecture& model) {
  return feed_forward(model, model.experts->inner, model.experts->biases);
}

/// Returns the weights of a layer of experts without the routed experts: the router and the shared experts.
Weights beside_experts(const Architecture& model) {
  const Experts& experts = *model.experts;
  const Weights router{.matrices = static_cast<Wide>(model.hidden) * experts.count,
                       .vectors = only_if(experts.router_bias, experts.count)};
  const Weights gate{.matrices = only_if(experts.shared_gate, model.hidden)};
  return router + gate + feed_forward(model, experts.shared_inner, false);
}

/// Returns the weights of a layer, counting `expert_count` of its experts.
Weights layer(const Architecture& model, const LayerKind& kind, Wide expert_count) {
  const Weights norms{.vectors = model.norms_per_layer * norm(model)};
  const Weights attended = attention(model) + norms;
  if (!kind.has_experts) return attended + feed_forward(model, model.feed_forward, model.feed_forward_bias);
  return attended + beside_experts(model) + expert_count * expert(model);
}

Wide layer_weights(const Architecture& model, const LayerKind& kind) {
  return layer(model, kind, kind.has_experts ? model.experts->count : 0).all();
}

Wide expert_weights(const Architecture& model, const LayerKind& kind) {
  return kind.has_experts ? (model.experts->count * expert(model)).all() : 0;
}

Wide embedding_weights(const Architecture& model) {
  return (static_cast<Wide>(model.vocabulary) + model.positions) * model.hidden +
         only_if(model.embedding_norm, norm(model));
}

Wide head_matrix(const Architecture& model) { return static_cast<Wide>(model.vocabulary) * model.hidden; }

Wide head_weights(const Architecture& model) {
  return norm(model) + only_if(!model.tied, head_matrix(model)) + only_if(model.head_bias, model.vocabulary);
}

/// Returns the weights of the projection that forms a prediction layer's input from a hidden state and the
/// next token's embedding.
Wide multi_token_projection(const Architecture& model) {
  return 2 * static_cast<Wide>(model.hidden) * model.hidden;
}

Wide model_weights(const Architecture& model) {
  Wide sum = embedding_weights(model) + head_weights(model);
  for (const LayerGroup& group : layer_groups(model)) sum += group.count * layer_weights(model, group.kind);
  return sum;
}

/// Returns the operations of the forward pass of one layer.
double layer_flops(const Architecture& model, const LayerKind& kind, std::int64_t sequence) {
  const Wide matrices = layer(model, kind, kind.has_experts ? model.experts->per_token : 0).matrices;
  // The operations of one score: the width of queries and keys, plus the width of the values.
  const std::int64_t dims =
      model.latent ? model.latent->content_dim + model.latent->rotary_dim + model.latent->value_dim
                   : 2 * model.head_dim;
  return 2 * static_cast<double>(matrices) * static_cast<double>(sequence) +
         2 * static_cast<double>(model.heads) * static_cast<double>(dims) * attention_scores(kind, sequence);
}

}  // namespace

std::int64_t layer_parameters(const Architecture& model, const LayerKind& kind) {
  return saturated(layer_weights(model, kind));
}

std::int64_t expert_parameters(const Architecture& model, const LayerKind& kind) {
  return saturated(expert_weights(model, kind));
}

std::int64_t embedding_parameters(const Architecture& model) { return saturated(embedding_weights(model)); }

std::int64_t head_parameters(const Architecture& model) { return saturated(head_weights(model)); }

std::int64_t multi_token_parameters(const Architecture& model) {
  return saturated(layer_weights(model, model.layers.back()) + multi_token_projection(model) +
                   3 * norm(model));
}

std::int64_t parameters(const Architecture& model) { return saturated(model_weights(model)); }

std::int64_t active_parameters(const Architecture& model) {
  Wide sum = model_weights(model);
  for (const LayerGroup& group : layer_groups(model)) {
    if (group.kind.has_experts)
      sum -= group.count * ((model.experts->count - model.experts->per_token) * expert(model)).all();
  }
  return saturated(sum);
}

std::vector<LayerGroup> layer_groups(const Architecture& model) {
  std::vector<LayerGroup> groups;
  for (const LayerKind& kind : model.layers) {
    const auto same = std::ranges::find(groups, kind, &LayerGroup::kind);
    if (same == groups.end()) {
      groups.push_back({.kind = kind, .count = 1});
    } else {
      ++same->count;
    }
  }
  return groups;
}

double attention_scores(const LayerKind& kind, std::int64_t sequence) {
  // On average, a causal query sees half of the sequence. With a window it sees at most `window` keys, so a
  // window of half the sequence or more has no effect.
  const std::int64_t seen = kind.window > 0 ? std::min(sequence, 2 * kind.window) : sequence;
  return static_cast<double>(sequence) * static_cast<double>(seen) / 2;
}

double flops_per_sample(const Architecture& model, std::int64_t sequence) {
  const double head = 2 * static_cast<double>(head_matrix(model)) * static_cast<double>(sequence);
  double forward = head;
  for (const LayerGroup& group : layer_groups(model))
    forward += static_cast<double>(group.count) * layer_flops(model, group.kind, sequence);
  const double projection =
      2 * static_cast<double>(multi_token_projection(model)) * static_cast<double>(sequence);
  if (model.multi_token > 0) {
    forward += static_cast<double>(model.multi_token) *
               (layer_flops(model, model.layers.back(), sequence) + projection + head);
  }
  return 3 * forward;
}

}  // namespace penstock
