#pragma once
// A modern transformer, described by its sizes: layers, attention, feed-forward parts, parameters, and the
// operations of one training sample. read/load_architecture.hpp reads it from a Hugging Face config.json or
// from sizes. scenarios/pricing computes its cost on a device.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

/// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1). It computes queries, keys and
/// values from narrow projections. Only the outputs of these projections are stored.
struct LatentAttention {
  /// The width of the query's narrow projection; 0 if the query has none.
  std::int64_t query_rank = 0;
  /// The width of the narrow projection of keys and values.
  std::int64_t kv_rank = 0;
  /// The width of a head's query and key without the rotary part (qk_nope_head_dim).
  std::int64_t content_dim = 0;
  /// The width of the rotary part (qk_rope_head_dim). All heads share the rotary part of the key.
  std::int64_t rotary_dim = 0;
  /// The width of a head's value.
  std::int64_t value_dim = 0;

  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// A layer of experts. A router sends each token to `per_token` experts.
struct Experts {
  std::int64_t count = 0;
  std::int64_t per_token = 0;
  /// The inner width of one expert.
  std::int64_t inner = 0;
  /// The inner width of the shared experts, which process every token; 0 if there are none.
  std::int64_t shared_inner = 0;
  /// The number of groups of experts. A token may use experts of at most `groups_per_token` groups.
  std::int64_t groups = 1;
  std::int64_t groups_per_token = 1;
  bool router_bias = false;
  /// True if the experts' own projections have biases.
  bool biases = false;
  /// True if one more projection computes a factor for the output of the shared experts.
  bool shared_gate = false;

  friend bool operator==(const Experts&, const Experts&) = default;
};

/// The properties in which the layers of one model may differ.
struct LayerKind {
  /// True for a layer of experts instead of a dense feed-forward part.
  bool has_experts = false;
  /// The number of tokens that a query can see (sliding attention); 0 means all earlier tokens.
  std::int64_t window = 0;

  friend bool operator==(const LayerKind&, const LayerKind&) = default;
};

/// A decoder-only transformer. Every size is at least 1 unless its comment allows 0. `kv_heads` divides
/// `heads`.
struct Architecture {
  /// The family, such as "llama", "gpt2" or "mixtral". It is shown to the user, and no computation uses it.
  std::string family{};
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  /// The number of heads of keys and values (grouped-query attention).
  std::int64_t kv_heads = 1;
  /// The width of a head. The product heads x head_dim may differ from hidden.
  std::int64_t head_dim = 1;
  /// The inner width of a dense feed-forward part.
  std::int64_t feed_forward = 1;
  std::int64_t vocabulary = 1;
  /// The number of learned positions; 0 means none (rotary positions).
  std::int64_t positions = 0;
  /// True if a feed-forward part has three projections (SwiGLU, GeGLU) instead of two.
  bool gated = true;
  /// True if the head uses the weights of the embedding.
  bool tied = false;
  /// True if norms are LayerNorm (a weight and a bias) instead of RMSNorm (only a weight).
  bool layer_norm = false;
  bool query_key_value_bias = false;
  /// True if the attention's output projection has a bias.
  bool output_bias = false;
  bool feed_forward_bias = false;
  /// True if the query and the key of each head have a norm of head_dim weights.
  bool query_key_norm = false;
  /// True if the norm of queries and keys has separate weights for every head.
  bool wide_query_key_norm = false;
  /// True if each head has one additional learned score.
  bool attention_sinks = false;
  bool head_bias = false;
  /// True if a norm follows the embedding.
  bool embedding_norm = false;
  /// The number of norms in a layer. It is 2 by default, 1 if attention and feed-forward part run side by
  /// side, and 4 if a norm also follows each part.
  std::int64_t norms_per_layer = 2;
  std::optional<LatentAttention> latent{};
  /// The experts; present if at least one layer has experts.
  std::optional<Experts> experts{};
  /// The layers in order; at least one.
  std::vector<LayerKind> layers{};
  /// The number of multi-token-prediction layers that are trained. No parameter count includes them.
  std::int64_t multi_token = 0;

  friend bool operator==(const Architecture&, const Architecture&) = default;
};

/// The largest parameter count of the functions below is 2^63 - 1.

/// Returns the parameters of one layer of the kind, including its norms.
std::int64_t layer_parameters(const Architecture& model, const LayerKind& kind);
/// Returns the parameters of the layer's routed experts, without the router. Returns 0 for a dense layer.
std::int64_t expert_parameters(const Architecture& model, const LayerKind& kind);
/// Returns the parameters of the token embedding, its norm, and learned positions.
std::int64_t embedding_parameters(const Architecture& model);
/// Returns the parameters of the final norm and the head's bias. If the head is not tied, it also counts the
/// head's weights.
std::int64_t head_parameters(const Architecture& model);
/// Returns the parameters of one multi-token-prediction layer: a layer like the last one, three norms, and a
/// projection from 2h to h. It shares embedding and head with the model. Requires at least one layer.
std::int64_t multi_token_parameters(const Architecture& model);

/// Returns the published number of parameters: all layers, the embedding and the head. It does not include
/// multi-token prediction.
std::int64_t parameters(const Architecture& model);
/// Returns the parameters that process one token. These are all parameters except the experts to which the
/// token is not routed.
std::int64_t active_parameters(const Architecture& model);

/// The layers of one kind. They need not be adjacent.
struct LayerGroup {
  LayerKind kind;
  std::int64_t count = 0;

  friend bool operator==(const LayerGroup&, const LayerGroup&) = default;
};
/// Returns the groups in the order in which the kinds first appear.
std::vector<LayerGroup> layer_groups(const Architecture& model);

/// Returns the number of (query, key) pairs that causal attention scores in a sequence: sequence^2 / 2, or
/// sequence x min(sequence, 2 window) / 2 with a window.
double attention_scores(const LayerKind& kind, std::int64_t sequence);

/// Returns the operations of forward and backward for one sample if nothing is computed twice. They are three
/// times the operations of matrix products and causal attention in the forward pass. The head counts, but the
/// embedding does not. Each trained multi-token-prediction layer counts with a head.
double flops_per_sample(const Architecture& model, std::int64_t sequence);

}  // namespace penstock
