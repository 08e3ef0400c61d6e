#pragma once
// A modern transformer by its sizes: its layers, its attention and feed-forward parts, its number of
// parameters, and the operations of one training sample. read/load_architecture.hpp reads it from a Hugging
// Face config.json or from sizes. scenarios/pricing prices it on a device.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

/// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1). Queries, keys and values are
/// computed from narrow projections, which are stored instead of them.
struct LatentAttention {
  /// The width of the query's narrow projection; 0 if there is none.
  std::int64_t query_rank = 0;
  /// The width of the narrow projection of keys and values.
  std::int64_t kv_rank = 0;
  /// The width of a head's query and key without the rotary part (qk_nope_head_dim).
  std::int64_t content_dim = 0;
  /// The width of the rotary part, whose key all heads share (qk_rope_head_dim).
  std::int64_t rotary_dim = 0;
  /// The width of a head's value.
  std::int64_t value_dim = 0;

  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// A layer of experts, in which a router sends each token to `per_token` of them.
struct Experts {
  std::int64_t count = 0;
  std::int64_t per_token = 0;
  /// The inner width of one expert.
  std::int64_t inner = 0;
  /// The inner width of the shared experts, which every token passes through; 0 if there are none.
  std::int64_t shared_inner = 0;
  /// The groups of experts, of which a token may use `groups_per_token`.
  std::int64_t groups = 1;
  std::int64_t groups_per_token = 1;
  bool router_bias = false;
  /// True if the experts' own projections have biases.
  bool biases = false;
  /// True if one more projection computes a weight for the output of the shared experts.
  bool shared_gate = false;

  friend bool operator==(const Experts&, const Experts&) = default;
};

/// The properties in which the layers of one model may differ.
struct LayerKind {
  /// True for a layer of experts instead of a dense feed-forward part.
  bool has_experts = false;
  /// The most tokens that a query sees (sliding attention); 0 means all earlier ones.
  std::int64_t window = 0;

  friend bool operator==(const LayerKind&, const LayerKind&) = default;
};

/// A decoder-only transformer. Sizes are at least 1 unless stated otherwise; `kv_heads` divides `heads`.
struct Architecture {
  /// The family, such as "llama", "gpt2" or "mixtral". It is only shown, and no computation depends on it.
  std::string family{};
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  /// The heads of keys and values (grouped-query attention).
  std::int64_t kv_heads = 1;
  /// The width of a head; heads x head_dim need not equal hidden.
  std::int64_t head_dim = 1;
  /// The inner width of a dense feed-forward part.
  std::int64_t feed_forward = 1;
  std::int64_t vocabulary = 1;
  /// The number of learned positions; 0 means none (rotary positions).
  std::int64_t positions = 0;
  /// True for three projections (SwiGLU, GeGLU) instead of two.
  bool gated = true;
  /// True if the head multiplies by the weights of the embedding.
  bool tied = false;
  /// True for LayerNorm (a weight and a bias) instead of RMSNorm (a weight).
  bool layer_norm = false;
  bool query_key_value_bias = false;
  /// True if the attention's output projection has a bias.
  bool output_bias = false;
  bool feed_forward_bias = false;
  /// True if each head's query and key have a norm of head_dim weights.
  bool query_key_norm = false;
  /// True if that norm has separate weights for every head.
  bool wide_query_key_norm = false;
  /// True if each head has one more learned score.
  bool attention_sinks = false;
  bool head_bias = false;
  /// True if a norm follows the embedding.
  bool embedding_norm = false;
  /// The norms of a layer: 2; 1 if attention and feed-forward part run side by side; 4 if norms also follow
  /// both.
  std::int64_t norms_per_layer = 2;
  std::optional<LatentAttention> latent{};
  /// Present if some layer has experts.
  std::optional<Experts> experts{};
  /// The layers in order; at least one.
  std::vector<LayerKind> layers{};
  /// The multi-token-prediction layers that are trained; no parameter count includes them.
  std::int64_t multi_token = 0;

  friend bool operator==(const Architecture&, const Architecture&) = default;
};

/// All counts of parameters below are limited to 2^63 - 1.

/// Returns the parameters of one layer of the kind, including its norms.
std::int64_t layer_parameters(const Architecture& model, const LayerKind& kind);
/// Returns the parameters of the layer's routed experts, without the router; 0 for a dense layer.
std::int64_t expert_parameters(const Architecture& model, const LayerKind& kind);
/// Returns the parameters of the token embedding, its norm, and learned positions.
std::int64_t embedding_parameters(const Architecture& model);
/// Returns the parameters of the final norm and of the head's bias, and the head's weights if it is not tied.
std::int64_t head_parameters(const Architecture& model);
/// Returns the parameters of one multi-token-prediction layer: a layer like the last one, two norms, a
/// projection of 2h to h, and its own norm. Embedding and head are shared. Requires at least one layer.
std::int64_t multi_token_parameters(const Architecture& model);

/// Returns the published number of parameters: layers, embedding and head once, without multi-token
/// prediction.
std::int64_t parameters(const Architecture& model);
/// Returns the parameters that one token passes through: all except the experts to which it is not routed.
std::int64_t active_parameters(const Architecture& model);

/// All layers of one kind, which need not be adjacent.
struct LayerGroup {
  LayerKind kind;
  std::int64_t count = 0;

  friend bool operator==(const LayerGroup&, const LayerGroup&) = default;
};
/// Returns the groups in the order in which the kinds first appear.
std::vector<LayerGroup> layer_groups(const Architecture& model);

/// Returns the pairs of a query and a key that causal attention scores in a sequence: sequence^2 / 2, or
/// sequence x min(sequence, 2 window) / 2 with a window.
double attention_scores(const LayerKind& kind, std::int64_t sequence);

/// Returns the operations of forward and backward of one sample if nothing is computed twice. That is three
/// times the operations of matrix products (with the head, without the embedding) and of causal attention.
/// Multi-token-prediction layers count if they are trained, each with a head.
double flops_per_sample(const Architecture& model, std::int64_t sequence);

}  // namespace penstock
