// Reads the sizes of a model, which have the same key names in all families. Other properties come from a
// key if it exists, and otherwise from the family's entry. All these keys are read even if the model does
// not need them, so that they are not reported as unknown.

#include "scenarios/read/huggingface.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/reader.hpp"

namespace penstock {
namespace {

/// A configuration and the model that is built from it.
struct Reading {
  HuggingFaceConfig& config;
  const HuggingFaceFamily& family;
  Architecture& model;
};

// --- sizes ----------------------------------------------------------------------------------------------

/// Returns a size, or the family's own value if the configuration does not have the key.
std::int64_t required_or(Reading& reading, const KeyNames& names, std::int64_t of_family) {
  const bool is_left_out = of_family > 0 && reading.config.find(names) == nullptr;
  return is_left_out ? of_family : reading.config.required(names, kModelSize);
}

void read_sizes(Reading& reading) {
  HuggingFaceConfig& config = reading.config;
  Architecture& model = reading.model;
  model.hidden = config.required({"hidden_size", "n_embd", "n_embed"}, kModelSize);
  // A configuration may list the parts of all layers without the number of layers. The list then determines
  // this number.
  const KeyNames count_names = {"num_hidden_layers", "n_layer", "num_layers"};
  const auto listed = config.find(count_names) == nullptr ? listed_layers(config) : std::nullopt;
  model.layers.resize(static_cast<std::size_t>(listed ? *listed : config.required(count_names, kModelCount)));
  model.heads = required_or(reading, {"num_attention_heads", "n_head"}, reading.family.heads);
  model.vocabulary = required_or(reading, {"vocab_size"}, reading.family.vocabulary);
  if (reading.family.learned_positions) {
    model.positions = config.required({"n_positions", "max_position_embeddings"}, kModelSize) +
                      reading.family.further_positions;
  }
}

/// Returns the number of key-value heads. In Falcon and StarCoder, a flag says that all queries share one
/// head.
std::int64_t kv_heads_of(Reading& reading) {
  HuggingFaceConfig& config = reading.config;
  const auto heads = config.size_if_any({"num_key_value_heads", "num_kv_heads", "n_head_kv"}, kModelSize);
  const bool is_single = config.flag({"multi_query"}).value_or(false);
  const bool is_new = config.flag({"new_decoder_architecture"}).value_or(false);
  const std::int64_t of_family = reading.family.kv_heads > 0 ? reading.family.kv_heads : reading.model.heads;
  // Newer Falcon models still have `multi_query`, but it has no effect.
  return is_single && !is_new ? 1 : heads.value_or(of_family);
}

void read_heads(Reading& reading) {
  HuggingFaceConfig& config = reading.config;
  Architecture& model = reading.model;
  model.kv_heads = kv_heads_of(reading);
  const auto head_dim = config.size_if_any({"head_dim", "attention_head_dim"}, kModelSize);
  if (head_dim) {
    model.head_dim = *head_dim;
  } else if (reading.family.head_dim > 0) {
    model.head_dim = reading.family.head_dim;
  } else if (model.hidden % model.heads == 0) {
    model.head_dim = model.hidden / model.heads;
  } else {
    config.complain(
        {"num_attention_heads", "n_head"},
        fmt::format("expected a number that divides hidden_size, {}, or head_dim beside it, got {}",
                    model.hidden, model.heads));
  }
  if (model.heads % model.kv_heads != 0) {
    config.complain({"num_key_value_heads", "num_kv_heads"},
                    fmt::format("expected a number that divides num_attention_heads, {}, got {}", model.heads,
                                model.kv_heads));
  }
  model.value_dim = config.size_if_any({"v_head_dim"}, kModelSize).value_or(0);
}

/// Reads the sizes of latent attention. A model has it if the configuration states a rank for keys and
/// values. Each head then computes its own keys and values.
void read_latent_attention(Reading& reading) {
  HuggingFaceConfig& config = reading.config;
  const auto kv_rank = config.size_if_any({"kv_lora_rank"}, kModelSize);
  const auto query_rank = config.size_if_any({"q_lora_rank"}, kModelSize);
  if (!kv_rank) return;
  Architecture& model = reading.model;
  model.latent = LatentAttention{.query_rank = query_rank.value_or(0),
                                 .kv_rank = *kv_rank,
                                 .content_dim = config.required({"qk_nope_head_dim"}, kModelSize),
                                 .rotary_dim = config.required({"qk_rope_head_dim"}, kModelSize),
                                 .value_dim = config.required({"v_head_dim"}, kModelSize)};
  // Configurations with latent attention may also have these keys, but the keys have no effect.
  config.know({"num_key_value_heads", "head_dim", "qk_head_dim"});
  model.kv_heads = model.heads;
  model.head_dim = model.latent->content_dim + model.latent->rotary_dim;
}

/// Reads the gate of attention. The family of Qwen3-Next always has one, without a key.
void read_attention_gate(Reading& reading) {
  const auto per_value = reading.config.flag({"attn_output_gate", "mla_use_output_gate"});
  reading.model.attention_gate = reading.family.attention_gate;
  if (per_value) reading.model.attention_gate = *per_value ? AttentionGate::per_value : AttentionGate::none;
  if (reading.config.flag({"use_head_wise_attn_gate"}).value_or(false))
    reading.model.attention_gate = AttentionGate::per_head;
}

/// Reads the indexer that selects the keys for each query. A model has an indexer if the configuration
/// states the indexer's heads.
void read_indexer(Reading& reading) {
  HuggingFaceConfig& config = reading.config;
  const auto heads = config.size_if_any({"index_n_heads"}, kModelSize);
  const auto dim = config.size_if_any({"index_head_dim"}, kModelSize);
  if (!heads) return;
  reading.model.indexer =
      Indexer{.heads = *heads, .head_dim = dim ? *dim : config.required({"index_head_dim"}, kModelSize)};
  if (!config.has("index_topk")) config.required({"index_topk"}, kModelSize);
}

// --- experts --------------------------------------------------------------------------------------------

/// Returns the inner width of the shared experts. `inner` is the width of a routed expert.
std::int64_t shared_inner_of(Reading& reading, std::int64_t inner) {
  HuggingFaceConfig& config = reading.config;
  const auto count =
      config.size_if_any({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"}, kModelCount);
  const auto one = config.size_if_any({"moe_shared_expert_intermediate_size"}, kModelSize);
  const auto all = config.size_if_any(
      {"shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim"}, kModelSize);
  if (count) return *count * one.value_or(inner);
  return all.value_or(0);
}

void read_groups(HuggingFaceConfig& config, Experts& experts) {
  experts.groups = config.size_if_any({"n_group", "num_expert_group"}, kModelCount).value_or(1);
  experts.groups_per_token = config.size_if_any({"topk_group"}, kModelCount).value_or(experts.groups);
  if (experts.count % experts.groups != 0 || experts.groups_per_token > experts.groups) {
    config.complain(
        {"n_group"},
        fmt::format(
            "expected a number that divides the {} experts, and topk_group of at most that, got {} and {}",
            experts.count, experts.groups, experts.groups_per_token));
  }
}

const KeyNames kPerToken = {"num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_k"};

/// Returns the experts of the model, or nothing if it has none. `width` is the value of the general key for
/// the inner width. It applies if no key states the width of the experts.
std::optional<Experts> experts_of(Reading& reading, const std::optional<std::int64_t>& width) {
  HuggingFaceConfig& config = reading.config;
  const auto count = config.size_if_any(
      {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}, kModelCount);
  const auto per_token = config.size_if_any(kPerToken, kModelCount);
  const auto own_width =
      config.size_if_any({"moe_intermediate_size", "expert_intermediate_size"}, kModelSize);
  const std::int64_t inner = own_width.value_or(width.value_or(1));
  const std::int64_t shared_inner = shared_inner_of(reading, inner);
  const auto latent = config.size_if_any({"moe_latent_size", "routed_expert_hidden_size"}, kModelSize);
  const bool has_latent_norm = config.flag({"latent_moe_use_norm"}).value_or(false);
  const bool corrects_scores = config.word({"topk_method"}) == "noaux_tc";
  const bool has_router_bias =
      config.flag({"moe_router_enable_expert_bias", "use_routing_bias", "moe_use_aux_free"}).value_or(false);
  if (!count) return std::nullopt;
  // A model with experts needs these keys, so required() records a problem for each missing one.
  if (!per_token) config.required({"num_experts_per_tok", "experts_per_token"}, kModelCount);
  if (!own_width && !width) config.required({"moe_intermediate_size", "intermediate_size"}, kModelSize);
  Experts experts{.count = *count,
                  .per_token = per_token.value_or(1),
                  .inner = inner,
                  .shared_inner = shared_inner,
                  .router_bias = reading.family.router_bias || corrects_scores || has_router_bias,
                  .biases = reading.family.expert_bias,
                  .shared_gate = reading.family.shared_gate && shared_inner > 0,
                  .latent = latent.value_or(0),
                  .latent_norm = latent && has_latent_norm};
  if (experts.per_token > experts.count) {
    config.complain(kPerToken, fmt::format("expected at most the {} experts that there are, got {}",
                                           experts.count, experts.per_token));
  }
  read_groups(config, experts);
  return experts;
}

/// Reads the inner widths of the feed-forward parts. 0 means that none is stated. Llama 4 has a separate
/// key for dense layers. It also has one shared expert, which no key states.
void read_feed_forward(Reading& reading) {
  HuggingFaceConfig& config = reading.config;
  Architecture& model = reading.model;
  const auto width =
      config.size_if_any({"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}, kModelSize);
  const auto dense_width = config.size_if_any({"intermediate_size_mlp"}, kModelSize);
  model.experts = experts_of(reading, width);
  // Only Llama 4 has this key, so it identifies the model with the shared expert.
  if (model.experts && dense_width) model.experts->shared_inner = model.experts->inner;
  const std::int64_t of_family = model.gated ? 0 : 4 * model.hidden;
  model.feed_forward = dense_width ? *dense_width : width.value_or(of_family);
  if (!model.experts && reading.family.shared_when_dense) {
    const auto shared = config.size_if_any({"shared_intermediate_size"}, kModelSize);
    model.feed_forward = shared.value_or(model.feed_forward);
  }
}

// --- norms, biases, the head ----------------------------------------------------------------------------

/// Returns the number of norms in a layer. In Falcon and StableLM, attention and feed-forward part share
/// one norm if they run in parallel.
std::int64_t norms_of(Reading& reading) {
  HuggingFaceConfig& config = reading.config;
  const bool is_new = config.flag({"new_decoder_architecture"}).value_or(false);
  const auto parallel = config.flag({"parallel_attn"});
  const auto residual = config.flag({"use_parallel_residual"});
  const std::int64_t of_parallel =
      config.size({"num_ln_in_parallel_attn"}, kModelSize).value_or(is_new ? 2 : 1);
  if (residual.value_or(false) && reading.family.one_norm_beside) return 1;
  return parallel.value_or(false) || is_new ? of_parallel : reading.family.norms;
}

void read_norms(Reading& reading) {
  HuggingFaceConfig& config = reading.config;
  Architecture& model = reading.model;
  const std::string kind = config.word({"norm_type"});
  model.layer_norm = kind.empty() ? reading.family.layer_norm : kind.starts_with("layer");
  if (!kind.empty() && !kind.starts_with("layer") && !kind.starts_with("rms"))
    config.add_unpriced(*config.find({"norm_type"}), "norm_type", kind);
  model.norms_per_layer = norms_of(reading);
  const bool has_norm = config.flag({"use_qk_norm", "qk_norm"}).value_or(reading.family.query_key_norm);
  const std::string reach = config.word({"qk_norm_type"});
  const bool is_bare = reading.family.query_key_norm_kind == QueryKeyNorm::bare;
  model.query_key_norm = has_norm && !is_bare && !model.latent;
  model.wide_query_key_norm =
      model.query_key_norm &&
      (reading.family.query_key_norm_kind == QueryKeyNorm::wide || reach == "per_layer");
  model.embedding_norm = reading.family.embedding_norm;
}

/// Reads the biases. The most specific key applies: the key for queries, keys and values, or else the key for
/// attention, or else the key for the whole model. If there is no key, the family decides.
void read_biases(Reading& reading) {
  HuggingFaceConfig& config = reading.config;
  const HuggingFaceFamily& family = reading.family;
  Architecture& model = reading.model;
  const auto everywhere = config.flag({"use_bias", "bias", "enable_bias"});
  const auto attention = config.flag({"attention_bias"});
  const auto queries = config.flag({"qkv_bias", "use_qkv_bias", "add_qkv_bias"});
  const auto output = config.flag({"attention_out_bias"});
  const auto feed_forward = config.flag({"mlp_bias"});
  model.query_key_value_bias =
      queries.value_or(attention.value_or(everywhere.value_or(family.query_key_value_bias)));
  const bool by_attention =
      attention && family.output_has_attention_bias ? *attention : everywhere.value_or(family.output_bias);
  model.output_bias = output.value_or(by_attention);
  model.feed_forward_bias = feed_forward.value_or(everywhere.value_or(family.feed_forward_bias));
  model.head_bias = config.flag({"lm_head_bias"}).value_or(family.head_bias);
}

const KeyNames kActivation = {"hidden_activation", "hidden_act", "activation_function", "mlp_hidden_act",
                              "activation"};

/// Reads whether a feed-forward part has three projections (with a gate) or two. The family decides this.
/// Models with plain or squared ReLUs always have two.
void read_activation(Reading& reading) {
  static constexpr std::array<std::string_view, 14> kKnown = {
      "silu",    "swish", "swiglu",     "gelu",      "gelu_new",          "gelu_fast", "gelu_python",
      "gelu_10", "geglu", "quick_gelu", "gelu_tanh", "gelu_pytorch_tanh", "relu",      "relu2"};
  HuggingFaceConfig& config = reading.config;
  const std::string activation = config.word(kActivation);
  reading.model.gated = reading.family.gated && activation != "relu" && activation != "relu2";
  const bool is_known = std::ranges::find(kKnown, activation) != kKnown.end();
  for (const std::string_view name : kActivation) {
    const Node* value = config.find({name});
    if (value == nullptr || activation.empty() || is_known) continue;
    config.add_unpriced(*value, name, activation);
    return;
  }
}

/// Marks size keys as read if the structure that they describe is switched off. They then have no effect.
void know_sizes_without_effect(HuggingFaceConfig& config) {
  const auto is_switched_off = [&](std::string_view key) {
    const Node* value = config.find({key});
    return value == nullptr || is_off(*value);
  };
  if (!config.has("hidden_size_per_layer_input")) return;
  // Gemma 4's larger models have no embedding for each layer.
  if (is_switched_off("hidden_size_per_layer_input")) {
    config.know({"vocab_size_per_layer_input"});
  } else {
    config.add_unpriced(*config.find({"hidden_size_per_layer_input"}), "hidden_size_per_layer_input",
                        "an embedding for each layer");
  }
}

/// Records structures whose cost cannot be computed and whose keys do not look like the names of structures,
/// such as "add_cross_attention".
void note_structures(Reading& reading) {
  HuggingFaceConfig& config = reading.config;
  for (const std::string_view key : {"is_encoder_decoder", "add_cross_attention"}) {
    const Node* value = config.find({key});
    if (value != nullptr && !is_off(*value)) config.add_unpriced(*value, key, value->text);
  }
  for (const std::string_view key : {"do_layer_norm_before", "layer_norm_elementwise_affine"}) {
    const Node* value = config.find({key});
    if (value != nullptr && is_off(*value)) config.add_unpriced(*value, key, "false");
  }
  const std::string parts = config.word({"mlp_type"});
  if (!parts.empty() && parts != "default")
    config.add_unpriced(*config.find({"mlp_type"}), "mlp_type", parts);
  const auto width = config.size_if_any({"word_embed_proj_dim"}, kModelSize);
  if (width && *width != reading.model.hidden) {
    config.add_unpriced(*config.find({"word_embed_proj_dim"}), "word_embed_proj_dim",
                        fmt::format("{}", *width));
  }
}

/// Removes the recurrence (such as Mamba) from the model if no layer has it. If no key lists the layers with
/// the recurrence either, they are unknown. The recurrence is then recorded as a structure whose cost cannot
/// be computed.
void note_unused_recurrence(Reading& reading) {
  HuggingFaceConfig& config = reading.config;
  Architecture& model = reading.model;
  if (!model.recurrence || std::ranges::any_of(model.layers, &LayerKind::has_recurrence)) return;
  model.recurrence.reset();
  const KeyNames sizes = {"mamba_num_heads", "mamba_n_heads", "linear_num_value_heads", "linear_attn_config"};
  for (const std::string_view key : sizes) {
    if (const Node* value = config.find({key}); value != nullptr && !listed_layers(config))
      config.add_unpriced(*value, key, "no key says which layers have it");
  }
}

/// Reads the kind of each layer. Removes the experts, the indexer and the recurrence if no layer has them.
/// Records a problem if a dense layer exists and no key states its width.
void read_layers(Reading& reading) {
  HuggingFaceConfig& config = reading.config;
  Architecture& model = reading.model;
  model.attention_sinks =
      config.flag({"add_full_attention_sink_bias"}).value_or(reading.family.attention_sinks);
  model.recurrence = recurrence_of(config, model);
  model.layers = layer_kinds_of(config, reading.family, model);
  if (!std::ranges::any_of(model.layers, &LayerKind::has_experts)) model.experts.reset();
  if (!std::ranges::any_of(model.layers, &LayerKind::has_indexer)) model.indexer.reset();
  note_unused_recurrence(reading);
  if (model.feed_forward > 0) return;
  const bool is_needed = std::ranges::any_of(model.layers, [](const LayerKind& kind) {
    return kind.has_feed_forward && !kind.has_experts && kind.feed_forward == 0;
  });
  // If every layer has experts, the width is not used and is set to 1.
  model.feed_forward = is_needed ? reading.config.required({"intermediate_size", "n_inner"}, kModelSize) : 1;
}

}  // namespace

Architecture architecture_of(HuggingFaceConfig& config, const HuggingFaceFamily& family) {
  Architecture model;
  Reading reading{.config = config, .family = family, .model = model};
  read_sizes(reading);
  read_activation(reading);
  read_latent_attention(reading);
  if (!model.latent) read_heads(reading);
  read_attention_gate(reading);
  read_indexer(reading);
  read_feed_forward(reading);
  read_layers(reading);
  read_norms(reading);
  read_biases(reading);
  model.tied = config.flag({"tie_word_embeddings"}).value_or(family.tied);
  note_structures(reading);
  know_sizes_without_effect(config);
  return model;
}

}  // namespace penstock
