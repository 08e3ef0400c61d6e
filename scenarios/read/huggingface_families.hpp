#pragma once
// The properties of model families that their configurations do not state. Used by load_architecture.hpp.

#include <cstdint>
#include <string_view>

namespace penstock {

/// The weights of the norm of queries and keys, if a model has this norm.
enum class QueryKeyNorm : std::uint8_t {
  per_head,  ///< head_dim weights, which all heads share
  wide,      ///< separate weights for each head
  bare       ///< no weights
};

/// The properties of a family, which apply if a configuration has no key for them. The defaults describe a
/// plain Llama: gated, RMSNorm, rotary positions, no biases, an untied head.
struct HuggingFaceFamily {
  /// The model types, separated by blanks. A * at an end matches any text.
  std::string_view names;
  /// The reason why models of this family cannot be priced. Empty if they can.
  std::string_view unpriced{};
  bool tied = false;
  bool layer_norm = false;
  bool gated = true;
  std::int64_t norms = 2;  ///< the norms of a layer
  bool query_key_value_bias = false;
  bool output_bias = false;
  /// True if the key `attention_bias` also applies to the attention's output.
  bool output_has_attention_bias = true;
  bool feed_forward_bias = false;
  bool head_bias = false;
  bool query_key_norm = false;
  QueryKeyNorm query_key_norm_kind = QueryKeyNorm::per_head;
  bool attention_sinks = false;
  bool router_bias = false;
  bool expert_bias = false;
  bool shared_gate = false;
  bool learned_positions = false;
  std::int64_t further_positions = 0;  ///< learned positions that no token can have
  bool embedding_norm = false;
  /// True if layers have windows only under `use_sliding_window: true`.
  bool windows_by_switch = false;
  /// Every n-th layer sees all tokens. With 0, no layer does if there is a window.
  std::int64_t full_every = 0;
  /// True if both parts of a layer share a norm under `use_parallel_residual`.
  bool one_norm_beside = false;
  std::int64_t head_dim = 0;  ///< 0 means hidden / heads
  std::int64_t heads = 0;     ///< for this and the next figures, 0 means that the key is required
  std::int64_t kv_heads = 0;
  std::int64_t vocabulary = 0;
};

/// Returns the family of a model type, or null if it is unknown. The comparison ignores case, `_`, `-` and
/// `.`.
const HuggingFaceFamily* find_family(std::string_view model_type);

}  // namespace penstock
