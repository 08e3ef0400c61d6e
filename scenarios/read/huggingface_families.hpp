#pragma once
// What models of a family have although their configurations do not say so. Used by load_architecture.hpp.

#include <cstdint>
#include <string_view>

namespace penstock {

/// What the norm of queries and keys weighs, where there is one.
enum class QueryKeyNorm : std::uint8_t {
  per_head,  ///< head_dim weights for all heads
  wide,      ///< weights of its own for each head
  bare       ///< no weights
};

/// Where a configuration has no key for it. Plain Llama by default: gated, RMSNorm, rotary, no bias, an
/// untied head.
struct HuggingFaceFamily {
  std::string_view names;       ///< model types with blanks between; * at an end stands for anything
  std::string_view unpriced{};  ///< why none of them can be priced; empty: they can
  bool tied = false;
  bool layer_norm = false;
  bool gated = true;
  std::int64_t norms = 2;  ///< a layer
  bool query_key_value_bias = false;
  bool output_bias = false;
  bool output_has_attention_bias = true;  ///< `attention_bias` is of the attention's output, too
  bool feed_forward_bias = false;
  bool head_bias = false;
  bool query_key_norm = false;
  QueryKeyNorm query_key_norm_kind = QueryKeyNorm::per_head;
  bool attention_sinks = false;
  bool router_bias = false;
  bool expert_bias = false;
  bool shared_gate = false;
  bool learned_positions = false;
  std::int64_t further_positions = 0;  ///< learned beyond those that a token can have
  bool embedding_norm = false;
  bool windows_by_switch = false;  ///< layers have windows only where `use_sliding_window` is true
  std::int64_t full_every = 0;     ///< each that-many-th layer sees all; 0: none does where there is a window
  bool one_norm_beside = false;    ///< under `use_parallel_residual` both parts of a layer share a norm
  std::int64_t head_dim = 0;       ///< 0: hidden / heads
  std::int64_t heads = 0;          ///< here and below, 0: it is always said
  std::int64_t kv_heads = 0;
  std::int64_t vocabulary = 0;
};

/// The row of a model type, null for one that is not known. Case, `_` and `-` do not count.
const HuggingFaceFamily* find_family(std::string_view model_type);

}  // namespace penstock
