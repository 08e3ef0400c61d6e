#pragma once
// What a modern transformer is, by its sizes: which layers it has, how its attention and its feed-forward
// parts are built, how many parameters it has and how many operations a sample of training asks for. Read
// from a Hugging Face config.json or from sizes by read/load_architecture.hpp, priced on a device by
// scenarios/pricing.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

/// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1): queries, keys and values come
/// out of narrow projections that are kept instead of them.
struct LatentAttention {
  std::int64_t query_rank = 0;  ///< width of the query's narrow projection; 0: it has none
  std::int64_t kv_rank = 0;
  std::int64_t content_dim = 0;  ///< of a head's query and key, without the rotary part (qk_nope_head_dim)
  std::int64_t rotary_dim = 0;   ///< the rotary part, one key of it for all heads (qk_rope_head_dim)
  std::int64_t value_dim = 0;

  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// A layer of experts: a router hands each token to `per_token` of them.
struct Experts {
  std::int64_t count = 0;
  std::int64_t per_token = 0;
  std::int64_t inner = 0;         ///< inner width of one expert
  std::int64_t shared_inner = 0;  ///< inner width of the experts that every token goes through; 0: none
  std::int64_t groups = 1;        ///< groups of experts, of which a token may use `groups_per_token`
  std::int64_t groups_per_token = 1;
  bool router_bias = false;
  bool biases = false;       ///< of the experts' own projections
  bool shared_gate = false;  ///< one more projection, to a weight for what the shared experts give

  friend bool operator==(const Experts&, const Experts&) = default;
};

/// What one layer is; all else is the same in all layers.
struct LayerKind {
  bool has_experts = false;  ///< a layer of experts instead of a dense feed-forward part
  std::int64_t window = 0;   ///< tokens that a query sees at most (sliding attention); 0: all before it

  friend bool operator==(const LayerKind&, const LayerKind&) = default;
};

/// A decoder-only transformer. Sizes are at least 1 unless said otherwise; `kv_heads` divides `heads`.
struct Architecture {
  std::string family{};  ///< "llama", "gpt2", "mixtral", ...: for people, decides nothing
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;      ///< heads of keys and values (grouped-query attention)
  std::int64_t head_dim = 1;      ///< heads x head_dim need not be hidden
  std::int64_t feed_forward = 1;  ///< inner width of a dense feed-forward part
  std::int64_t vocabulary = 1;
  std::int64_t positions = 0;  ///< learned positions; 0: none (rotary)
  bool gated = true;           ///< three projections (SwiGLU, GeGLU) instead of two
  bool tied = false;           ///< the head multiplies by the embedding's own weights
  bool layer_norm = false;     ///< LayerNorm (a weight and a bias) instead of RMSNorm (a weight)
  bool query_key_value_bias = false;
  bool output_bias = false;  ///< of the attention's output projection
  bool feed_forward_bias = false;
  bool query_key_norm = false;  ///< a norm of head_dim weights on each head's query and key
  /// That norm has weights of its own for every head.
  bool wide_query_key_norm = false;
  bool attention_sinks = false;  ///< one more learned score a head
  bool head_bias = false;
  bool embedding_norm = false;       ///< a norm behind the embedding
  std::int64_t norms_per_layer = 2;  ///< 1: attention and feed-forward part side by side; 4: behind both, too
  std::optional<LatentAttention> latent{};
  std::optional<Experts> experts{};  ///< present where a layer has them
  std::vector<LayerKind> layers{};   ///< in order; at least one
  std::int64_t multi_token = 0;  ///< multi-token-prediction layers that are trained; in no parameter count

  friend bool operator==(const Architecture&, const Architecture&) = default;
};

/// Counts of parameters end at 2^63 - 1.

/// Parameters of one layer of the kind, its norms with it.
std::int64_t layer_parameters(const Architecture& model, const LayerKind& kind);
/// Those of its experts that are routed to, without the router; 0 for a dense layer.
std::int64_t expert_parameters(const Architecture& model, const LayerKind& kind);
/// Token embedding, its norm, and learned positions.
std::int64_t embedding_parameters(const Architecture& model);
/// The final norm, and the head's own weights where it is not tied, and its bias.
std::int64_t head_parameters(const Architecture& model);
/// One multi-token-prediction layer: a layer like the last one, two norms and a projection of 2h to h, and
/// its own norm; embedding and head are shared. Requires a layer.
std::int64_t multi_token_parameters(const Architecture& model);

/// The published kind of count: layers, embedding and head once; multi-token prediction is not in it.
std::int64_t parameters(const Architecture& model);
/// Those that one token passes through: all but the experts that it is not routed to.
std::int64_t active_parameters(const Architecture& model);

/// Layers of one kind, which may lie apart.
struct LayerGroup {
  LayerKind kind;
  std::int64_t count = 0;

  friend bool operator==(const LayerGroup&, const LayerGroup&) = default;
};
/// In the order in which the kinds appear.
std::vector<LayerGroup> layer_groups(const Architecture& model);

/// Pairs of a query and a key that causal attention scores in a sequence: sequence^2 / 2, or
/// sequence x min(sequence, 2 window) / 2 under a window.
double attention_scores(const LayerKind& kind, std::int64_t sequence);

/// Operations of forward and backward of one sample with nothing computed twice: three times those of the
/// matrix products (head with, embedding without) and of causal attention. Multi-token-prediction layers
/// count where they are trained, each with a head.
double flops_per_sample(const Architecture& model, std::int64_t sequence);

}  // namespace penstock
