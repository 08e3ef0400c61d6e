#pragma once
// A modern transformer, described by its sizes: layers, attention, feed-forward parts, parameters, and the
// operations for one training sample. read/load_architecture.hpp reads these sizes from a Hugging Face
// config.json or from a scenario. scenarios/pricing computes the cost of the transformer on a device.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

/// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1). It first projects each token
/// to narrow vectors, and computes queries, keys and values from these. For later tokens, only the narrow
/// vector of keys and values and the rotary part of the key are cached.
struct LatentAttention {
  /// The width of the narrow vector from which queries are computed. It is 0 if queries are computed
  /// directly from the token.
  std::int64_t query_rank = 0;
  /// The width of the narrow vector from which keys and values are computed.
  std::int64_t kv_rank = 0;
  /// The width of a head's query and key without the rotary part (qk_nope_head_dim).
  std::int64_t content_dim = 0;
  /// The width of the rotary part of a query and a key (qk_rope_head_dim). The heads share the rotary part
  /// of the key.
  std::int64_t rotary_dim = 0;
  /// The width of a head's value.
  std::int64_t value_dim = 0;

  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// The experts of a mixture-of-experts layer. A router sends each token to `per_token` experts.
struct Experts {
  std::int64_t count = 0;
  std::int64_t per_token = 0;
  /// The inner width of one expert's feed-forward network.
  std::int64_t inner = 0;
  /// The inner width of the shared experts, which process every token; 0 if there are none.
  std::int64_t shared_inner = 0;
  /// The number of groups into which the experts are divided. A token may use experts of at most
  /// `groups_per_token` groups.
  std::int64_t groups = 1;
  std::int64_t groups_per_token = 1;
  bool router_bias = false;
  /// True if the experts' own projections have biases.
  bool biases = false;
  /// True if the output of the shared experts is multiplied by a factor that one more projection computes.
  bool shared_gate = false;
  /// The width of the vectors that experts receive; 0 means the hidden width. A smaller width needs two
  /// more projections in the layer (Nemotron 3). One narrows each token before the experts, and the other
  /// widens the sum of their outputs.
  std::int64_t latent = 0;
  /// True if a norm follows the sum of the experts' narrow outputs.
  bool latent_norm = false;

  friend bool operator==(const Experts&, const Experts&) = default;
};

/// A mixer that passes a state of fixed size from token to token. Each head has a matrix of key_dim x
/// value_dim values, to which every token adds its value under its key. Models differ in what else they
/// project and learn:
///
///   linear attention (arXiv:2501.08313)    a gate
///   Mamba-2 (arXiv:2405.21060)             a gate, a decay for each head
///   gated delta rule (arXiv:2412.06464)    a gate, a decay and a strength for each head
///   Kimi delta attention (2510.26692)      a gate and a decay for each value of a key, each by a narrow
///                                          projection, and a strength for each head
struct RecurrentMixer {
  /// The number of key heads. In each head, each token has two keys: one to write the state and one to read
  /// it (B and C in the paper on Mamba-2).
  std::int64_t key_heads = 1;
  std::int64_t key_dim = 1;
  std::int64_t value_heads = 1;
  std::int64_t value_dim = 1;
  /// The number of taps of the causal convolution over keys and values; 0 means that there is no
  /// convolution.
  std::int64_t taps = 0;
  bool convolution_bias = false;
  /// True if the input and output projections have biases.
  bool projection_bias = false;
  /// The number of further values that the input projection computes for each value head, beside the head's
  /// gate and value.
  std::int64_t head_inputs = 0;
  /// The number of learned parameters of each value head, such as its decay.
  std::int64_t head_vectors = 0;
  /// The inner width of the two projections that compute the gate. It is 0 if one full projection computes
  /// the gate.
  std::int64_t gate_rank = 0;
  /// The inner width of the two projections that compute a decay for each value of a key. It is 0 if there
  /// is no such decay.
  std::int64_t decay_rank = 0;
  /// The number of weights of the norm before the output projection.
  std::int64_t norm_weights = 0;
  /// True if the delta rule is used: before a token adds its value, it subtracts the value that the state
  /// returns for its key.
  bool delta_rule = false;
  /// The tokens that the published kernels process at a time.
  std::int64_t chunk = 64;

  std::int64_t keys() const { return key_heads * key_dim; }
  std::int64_t values() const { return value_heads * value_dim; }
  /// Returns the number of values per token that pass through the convolution: keys to write, keys to read,
  /// and values.
  std::int64_t convolved() const { return 2 * keys() + values(); }
  /// Returns the number of output columns of the input projection. For a gate or decay of two projections,
  /// it counts the columns of the first one.
  std::int64_t input_columns() const {
    const std::int64_t gate = gate_rank > 0 ? gate_rank : values();
    return convolved() + gate + decay_rank + head_inputs * value_heads;
  }

  friend bool operator==(const RecurrentMixer&, const RecurrentMixer&) = default;
};

/// A small attention that selects the keys to which each query of the main attention attends
/// (DeepSeek-V3.2, section 2.1). Its heads share one key.
struct Indexer {
  std::int64_t heads = 1;
  std::int64_t head_dim = 1;

  friend bool operator==(const Indexer&, const Indexer&) = default;
};

/// The gate that multiplies the result of attention: none, one factor for each head, or one for each value.
enum class AttentionGate : std::uint8_t { none, per_head, per_value };

/// The numbers and sizes of the attention heads in one layer, if they differ from those of the model.
struct OwnHeads {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t key_dim = 1;
  std::int64_t value_dim = 1;
  bool sinks = false;
  /// True if keys also serve as values, so that values have no projection.
  bool shares_values = false;

  friend bool operator==(const OwnHeads&, const OwnHeads&) = default;
};

/// The properties in which the layers of one model may differ. A usual layer has attention and a feed-forward
/// part. Other layers have only one of them, or none.
struct LayerKind {
  /// True if the layer has experts instead of a dense feed-forward part.
  bool has_experts = false;
  /// The number of tokens to which a query attends (sliding attention); 0 means all earlier tokens.
  std::int64_t window = 0;
  bool has_attention = true;
  /// True if the layer contains the model's recurrent mixer (Architecture::recurrence), usually instead of
  /// attention.
  bool has_recurrence = false;
  /// True if the layer has a feed-forward part, dense or with experts.
  bool has_feed_forward = true;
  /// True if the layer computes a selection of keys with its own indexer.
  bool has_indexer = false;
  /// The number of keys that the indexer selects for each query; 0 means that a query attends to all keys.
  std::int64_t selected = 0;
  /// The number of parts of this layer that consist of only one matrix of hidden x hidden values.
  std::int64_t linear_parts = 0;
  /// The heads of this layer; absent if it has those of the model.
  std::optional<OwnHeads> heads{};
  /// The inner width of this layer's dense feed-forward part; 0 means that of the model.
  std::int64_t feed_forward = 0;

  /// Returns the number of parts of the layer. Each part has a norm and a residual add; a usual layer has 2
  /// parts.
  std::int64_t parts() const {
    return (has_attention || has_recurrence ? 1 : 0) + (has_feed_forward ? 1 : 0) + linear_parts;
  }

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
  /// The width of a head's value; 0 means head_dim.
  std::int64_t value_dim = 0;
  /// True if keys also serve as values, so that values have no projection.
  bool shares_values = false;
  /// The inner width of a dense feed-forward part.
  std::int64_t feed_forward = 1;
  std::int64_t vocabulary = 1;
  /// The number of learned position embeddings; 0 means none, because positions are rotary.
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
  /// True if queries and keys are normalised in each head, with norms of head_dim weights.
  bool query_key_norm = false;
  /// True if the norm of queries and keys has separate weights for every head.
  bool wide_query_key_norm = false;
  /// True if each head has one additional learned score that belongs to no key (an attention sink).
  bool attention_sinks = false;
  bool head_bias = false;
  /// True if a norm follows the embedding.
  bool embedding_norm = false;
  /// The number of norms in a layer. It is 2 by default. It is 1 if attention and feed-forward part run in
  /// parallel, and 4 if a norm also follows each part.
  std::int64_t norms_per_layer = 2;
  std::optional<LatentAttention> latent{};
  AttentionGate attention_gate = AttentionGate::none;
  /// The recurrent mixer. Present if at least one layer has a recurrence.
  std::optional<RecurrentMixer> recurrence{};
  /// The indexer; present if at least one layer has one.
  std::optional<Indexer> indexer{};
  /// The experts; present if at least one layer has experts.
  std::optional<Experts> experts{};
  /// The layers in order; at least one.
  std::vector<LayerKind> layers{};
  /// The number of multi-token-prediction layers that are trained. The parameter counts do not include these
  /// layers.
  std::int64_t multi_token = 0;

  /// Returns the width of a head's value.
  std::int64_t head_value_dim() const { return value_dim > 0 ? value_dim : head_dim; }
  /// Returns the width of the vectors that experts receive. Requires a model with experts.
  std::int64_t expert_width() const { return experts->latent > 0 ? experts->latent : hidden; }

  friend bool operator==(const Architecture&, const Architecture&) = default;
};

/// Returns true if layers of this kind have other sizes or fewer parts than `Architecture` states for the
/// whole model.
bool has_own_sizes(const LayerKind& kind);
/// Returns a copy of the model that has the heads, widths and norms of layers of this kind.
Architecture sized_for(Architecture model, const LayerKind& kind);
/// Returns the kind of layer that multi-token prediction uses. This is the kind of the last layer that has
/// attention and a feed-forward part. If no layer has both, it is a layer with these two parts, and with
/// experts if the model has experts.
LayerKind prediction_kind(const Architecture& model);

/// The functions below return at most 2^63 - 1. They return this limit if a parameter count is larger.

/// Returns the number of parameters of one layer of this kind, including its norms.
std::int64_t layer_parameters(const Architecture& model, const LayerKind& kind);
/// Returns the number of parameters of the layer's routed experts, without the router. Returns 0 for a
/// dense layer.
std::int64_t expert_parameters(const Architecture& model, const LayerKind& kind);
/// Returns the number of parameters of the token embedding, the norm after it, and learned positions.
std::int64_t embedding_parameters(const Architecture& model);
/// Returns the number of parameters of the final norm and the output head. The head's weights do not count
/// if they are tied to the embedding.
std::int64_t head_parameters(const Architecture& model);
/// Returns the number of parameters of one multi-token-prediction layer. It consists of a layer of the kind
/// prediction_kind(), three norms, and a projection from 2 x `hidden` values to `hidden` values. It shares
/// the embedding and the output head with the model.
std::int64_t multi_token_parameters(const Architecture& model);

/// Returns the number of parameters of the model as it is usually published: all layers, the embedding and
/// the output head. Multi-token-prediction layers do not count.
std::int64_t parameters(const Architecture& model);
/// Returns the number of parameters that process one token. Routed experts that do not receive the token are
/// not counted.
std::int64_t active_parameters(const Architecture& model);

/// The largest number of different kinds of layers that the model of a scenario may have.
inline constexpr std::size_t kMostLayerKinds = 256;

/// The layers of one kind. They need not be adjacent.
struct LayerGroup {
  LayerKind kind;
  std::int64_t count = 0;

  friend bool operator==(const LayerGroup&, const LayerGroup&) = default;
};
/// Returns one group for each kind of layer, in the order in which the kinds first appear in the model.
std::vector<LayerGroup> layer_groups(const Architecture& model);

/// Returns the number of (query, key) pairs for which causal attention computes a score in one sequence.
/// Without a window, it is sequence^2 / 2. With a window, it is sequence x min(sequence, 2 window) / 2. If
/// an indexer selects s keys, it is s x sequence - s^2 / 2, because the first s queries see fewer keys.
double attention_scores(const LayerKind& kind, std::int64_t sequence);

/// Returns the number of floating-point operations of the recurrence for one token, without its
/// projections. Let a head have keys of k and values of v numbers. The kernels process C tokens at a time
/// (a chunk): they score all pairs in the chunk, and read and write the state once. This takes 2 C (k + v)
/// + 4 k v for each head. Heads that share a key also share its scores. The delta rule takes 2 C (2 k + v)
/// + C^2 + 2 k v in addition: it scores keys with keys, solves a triangular system of C x C, and reads the
/// state once more.
double recurrence_operations(const RecurrentMixer& recurrence);

/// Returns the floating-point operations of the forward and backward passes for one sample, without
/// recomputation. They are three times the operations of matrix products and causal attention in the
/// forward pass. The output head counts, but the embedding does not. Each trained multi-token-prediction
/// layer counts with one more output head.
double flops_per_sample(const Architecture& model, std::int64_t sequence);

}  // namespace penstock
