// Counts the parameters and operations of a transformer. In the symbols of the papers: h hidden, a heads, g
// heads of keys and values, d head_dim, f feed_forward, V vocabulary, E experts, k experts for each token, e
// the inner width of an expert, s the inner width of the shared experts. A layer has these matrices:
//
//   attention      h (a + 2g) d + a d h                      grouped-query (arXiv:2305.13245)
//                  h q + q a (n + r)  or  h a (n + r)        latent (arXiv:2405.04434, section 2.1): queries,
//                  + h (c + r) + c a (n + v) + a v h         and keys and values; q, c ranks, n, r, v dims
//   recurrent      h (2k + 2v + ..) + v h                    keys and values of all heads, a gate
//   indexer        q i + h (j + n)                           n heads of width j, i = n j (DeepSeek-V3.2)
//   feed-forward   3 h f gated (arXiv:2002.05202), else 2 h f
//   experts        h E + E 3 h e + 3 h s
//
// Each matrix multiplies every token once, which takes 2 operations for each weight. A token uses only k of
// the E experts. Biases, norms and attention sinks are vectors. In addition to its layers, the model has the
// final norm and V h for the embedding. It has another V h if the head is not tied, and h for each learned
// position. Tested by architecture_test.cpp.

#include "scenarios/architecture/architecture.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

/// The numbers of parameters in one component of a layer, such as attention. Weights of matrices are counted
/// apart from vectors, because only matrices need matrix products.
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

/// Returns the number of parameters of one norm, including its bias if the norm is a LayerNorm.
Wide norm(const Architecture& model) { return only_if(model.layer_norm, model.hidden) + model.hidden; }

/// Returns the number of weights in the matrix that computes the attention gate from the hidden values.
/// Returns 0 if attention has no gate.
Wide gate_matrix(const Architecture& model, std::int64_t value_dim) {
  const Wide heads = static_cast<Wide>(model.hidden) * model.heads;
  switch (model.attention_gate) {
    case AttentionGate::none:
      return 0;
    case AttentionGate::per_head:
      return heads;
    case AttentionGate::per_value:
      return heads * value_dim;
  }
  return 0;
}

/// Returns the weights of latent attention. They project the hidden values to the narrow vectors of queries,
/// keys and values, and the narrow vectors to the heads. All heads share the rotary part of the keys, so it
/// is projected directly from the hidden values.
Weights latent_attention(const Architecture& model, const LatentAttention& latent) {
  const Wide hidden = model.hidden;
  const Wide queries = static_cast<Wide>(model.heads) * (latent.content_dim + latent.rotary_dim);
  const Wide keys_and_values = static_cast<Wide>(model.heads) * (latent.content_dim + latent.value_dim);
  const Wide narrow = latent.kv_rank + latent.rotary_dim;
  const Wide query = latent.query_rank > 0 ? latent.query_rank * (hidden + queries)
                                           : hidden * queries;  // q = 0 means a single projection
  return {.matrices = query + hidden * narrow + latent.kv_rank * keys_and_values +
                      static_cast<Wide>(model.heads) * latent.value_dim * hidden +
                      gate_matrix(model, latent.value_dim),
          .vectors = latent.query_rank + latent.kv_rank +  // norms of the narrow projections
                     only_if(model.query_key_value_bias, latent.query_rank + narrow) +
                     only_if(model.output_bias, hidden)};
}

Weights attention(const Architecture& model) {
  if (model.latent) return latent_attention(model, *model.latent);
  const Wide hidden = model.hidden;
  const Wide queries = static_cast<Wide>(model.heads) * model.head_dim;
  const Wide keys = static_cast<Wide>(model.kv_heads) * model.head_dim;
  const Wide values =
      only_if(!model.shares_values, static_cast<Wide>(model.kv_heads) * model.head_value_dim());
  const Wide results = static_cast<Wide>(model.heads) * model.head_value_dim();
  // The norm of queries and keys has separate weights for every head, or one set for all heads.
  const Wide normed = model.wide_query_key_norm ? queries + keys : 2 * static_cast<Wide>(model.head_dim);
  return {.matrices = hidden * (queries + keys + values) + results * hidden +
                      gate_matrix(model, model.head_value_dim()),
          .vectors = only_if(model.query_key_value_bias, queries + keys + values) +
                     only_if(model.output_bias, hidden) + only_if(model.query_key_norm, normed) +
                     only_if(model.attention_sinks, model.heads)};
}

/// Returns the weights of a recurrence. The parameters of the convolution and the decays count as vectors.
Weights recurrent(const Architecture& model) {
  const RecurrentMixer& recurrence = *model.recurrence;
  const Wide hidden = model.hidden;
  const Wide keys = recurrence.keys();
  const Wide values = recurrence.values();
  const Wide taps = recurrence.taps + (recurrence.convolution_bias ? 1 : 0);
  return {.matrices = hidden * recurrence.input_columns() + recurrence.gate_rank * values +
                      recurrence.decay_rank * keys + values * hidden,
          .vectors = taps * recurrence.convolved() +
                     static_cast<Wide>(recurrence.head_vectors) * recurrence.value_heads +
                     only_if(recurrence.decay_rank > 0, keys) + recurrence.norm_weights +
                     only_if(recurrence.projection_bias, recurrence.input_columns() + hidden)};
}

/// Returns the weights of an indexer. It computes its queries from the narrow queries of latent attention.
/// From the hidden values it computes one key with a LayerNorm, and a factor for each head.
Weights indexer(const Architecture& model) {
  const Indexer& indexer = *model.indexer;
  const bool is_narrow = model.latent && model.latent->query_rank > 0;
  const Wide from = is_narrow ? model.latent->query_rank : model.hidden;
  return {.matrices = from * indexer.heads * indexer.head_dim +
                      static_cast<Wide>(model.hidden) * (indexer.head_dim + indexer.heads),
          .vectors = 2 * static_cast<Wide>(indexer.head_dim)};
}

/// Returns the weights of a feed-forward part whose input vectors have `width` values. If `inner` is 0 (no
/// shared expert), only the biases remain.
Weights feed_forward(const Architecture& model, Wide width, Wide inner, bool has_biases) {
  const Wide widened = model.gated ? 2 * inner : inner;
  return {.matrices = width * (widened + inner), .vectors = only_if(has_biases, widened + width)};
}

Weights expert(const Architecture& model) {
  const Experts& experts = *model.experts;
  return feed_forward(model, model.expert_width(), experts.inner, experts.biases);
}

/// Returns the weights of a layer's expert part without the routed experts. They are the router, the shared
/// experts and their gate, and the projections around the experts.
Weights beside_experts(const Architecture& model) {
  const Experts& experts = *model.experts;
  const Weights router{.matrices = static_cast<Wide>(model.hidden) * experts.count,
                       .vectors = only_if(experts.router_bias, experts.count)};
  const Weights gate{.matrices = only_if(experts.shared_gate, model.hidden)};
  const Weights narrowing{.matrices = 2 * static_cast<Wide>(model.hidden) * experts.latent,
                          .vectors = only_if(experts.latent_norm, experts.latent)};
  return router + gate + narrowing + feed_forward(model, model.hidden, experts.shared_inner, false);
}

/// Returns the weights of a layer of this kind. If the layer has experts, exactly `expert_count` routed
/// experts are counted.
Weights layer(const Architecture& all, const LayerKind& kind, Wide expert_count) {
  // Most kinds have the model's sizes, so the model is copied only for the others.
  const std::optional<Architecture> own =
      has_own_sizes(kind) ? std::optional(sized_for(all, kind)) : std::nullopt;
  const Architecture& model = own ? *own : all;
  Weights sum{.matrices = kind.linear_parts * static_cast<Wide>(model.hidden) * model.hidden,
              .vectors = model.norms_per_layer * norm(model)};
  if (kind.has_attention) sum = sum + attention(model);
  if (kind.has_recurrence) sum = sum + recurrent(model);
  if (kind.has_indexer) sum = sum + indexer(model);
  if (!kind.has_feed_forward) return sum;
  if (kind.has_experts) return sum + beside_experts(model) + expert_count * expert(model);
  return sum + feed_forward(model, model.hidden, model.feed_forward, model.feed_forward_bias);
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

/// Returns the number of weights of the projection in a multi-token-prediction layer. This projection
/// computes the layer's input from a hidden state and the embedding of the next token.
Wide multi_token_projection(const Architecture& model) {
  return 2 * static_cast<Wide>(model.hidden) * model.hidden;
}

Wide model_weights(const Architecture& model) {
  Wide sum = embedding_weights(model) + head_weights(model);
  for (const LayerGroup& group : layer_groups(model)) sum += group.count * layer_weights(model, group.kind);
  return sum;
}

/// Returns the number of multiplications that attention needs for one query and one key: the width of the
/// key, plus the width of the value.
std::int64_t score_width(const Architecture& model, const LayerKind& kind) {
  if (model.latent) return model.latent->content_dim + model.latent->rotary_dim + model.latent->value_dim;
  if (kind.heads) return kind.heads->key_dim + kind.heads->value_dim;
  return model.head_dim + model.head_value_dim();
}

/// Returns the floating-point operations of the forward pass of one layer for one sequence.
double layer_flops(const Architecture& model, const LayerKind& kind, std::int64_t sequence) {
  const Wide matrices = layer(model, kind, kind.has_experts ? model.experts->per_token : 0).matrices;
  double operations = 2 * static_cast<double>(matrices) * static_cast<double>(sequence);
  if (kind.has_recurrence)
    operations += recurrence_operations(*model.recurrence) * static_cast<double>(sequence);
  if (kind.has_indexer) {
    // The indexer selects keys by their scores, so it computes a score for every pair of query and key.
    const double width = static_cast<double>(model.indexer->heads) * as_double(model.indexer->head_dim);
    operations += 2 * width * attention_scores({}, sequence);
  }
  if (!kind.has_attention) return operations;
  const std::int64_t heads = kind.heads ? kind.heads->heads : model.heads;
  return operations +
         2 * as_double(heads) * as_double(score_width(model, kind)) * attention_scores(kind, sequence);
}

}  // namespace

bool has_own_sizes(const LayerKind& kind) { return kind.heads || kind.feed_forward > 0 || kind.parts() != 2; }

Architecture sized_for(Architecture model, const LayerKind& kind) {
  if (kind.heads) {
    model.heads = kind.heads->heads;
    model.kv_heads = kind.heads->kv_heads;
    model.head_dim = kind.heads->key_dim;
    model.value_dim = kind.heads->value_dim;
    model.attention_sinks = kind.heads->sinks;
    model.shares_values = kind.heads->shares_values;
  }
  if (kind.feed_forward > 0) model.feed_forward = kind.feed_forward;
  // The model's `norms_per_layer` holds for layers of two parts. A layer of one part has half as many norms,
  // rounded up.
  model.norms_per_layer = (model.norms_per_layer * kind.parts() + 1) / 2;
  return model;
}

LayerKind prediction_kind(const Architecture& model) {
  const auto is_whole = [](const LayerKind& kind) { return kind.has_attention && kind.has_feed_forward; };
  const auto last = std::find_if(model.layers.rbegin(), model.layers.rend(), is_whole);
  return last == model.layers.rend() ? LayerKind{.has_experts = model.experts.has_value()} : *last;
}

std::int64_t layer_parameters(const Architecture& model, const LayerKind& kind) {
  return saturated(layer_weights(model, kind));
}

std::int64_t expert_parameters(const Architecture& model, const LayerKind& kind) {
  return saturated(expert_weights(model, kind));
}

std::int64_t embedding_parameters(const Architecture& model) { return saturated(embedding_weights(model)); }

std::int64_t head_parameters(const Architecture& model) { return saturated(head_weights(model)); }

std::int64_t multi_token_parameters(const Architecture& model) {
  return saturated(layer_weights(model, prediction_kind(model)) + multi_token_projection(model) +
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
  const double tokens = as_double(sequence);
  if (kind.selected > 0 && kind.selected < sequence)
    return as_double(kind.selected) * (tokens - as_double(kind.selected) / 2);
  const std::int64_t seen = kind.window > 0 ? std::min(sequence, 2 * kind.window) : sequence;
  return tokens * as_double(seen) / 2;
}

double recurrence_operations(const RecurrentMixer& recurrence) {
  const double chunk = as_double(recurrence.chunk);
  const double key = as_double(recurrence.key_dim);
  const double value = as_double(recurrence.value_dim);
  const double heads = as_double(recurrence.value_heads);
  const double scores = 2 * chunk * key * as_double(recurrence.key_heads);
  const double plain = scores + heads * (2 * chunk * value + 4 * key * value);
  if (!recurrence.delta_rule) return plain;
  return plain + 2 * scores + heads * (2 * chunk * value + chunk * chunk + 2 * key * value);
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
               (layer_flops(model, prediction_kind(model), sequence) + projection + head);
  }
  return 3 * forward;
}

}  // namespace penstock
