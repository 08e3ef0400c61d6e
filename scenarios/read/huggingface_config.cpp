// Records which keys of a configuration the code reads, and finally classifies all other keys. A key that
// was not read falls into one of four classes. Its value means "off", or it is known to have no cost, or
// it is unknown. In the fourth class, it describes a structure whose cost Penstock cannot compute.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/read/document.hpp"
#include "scenarios/read/huggingface.hpp"
#include "scenarios/read/reader.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

/// The keys under which a multimodal model stores the configuration of its text model.
constexpr std::array<std::string_view, 3> kNestedKeys = {"text_config", "language_config", "llm_config"};

bool is_null(const Node& value) {
  return value.kind == Node::Kind::nothing || (value.kind == Node::Kind::scalar && value.text == "null");
}

/// Removes an entry from a mapping. Returns the number of removed entries: 0 or 1, because no key occurs
/// twice.
std::size_t erase(Node* mapping, std::string_view key) {
  if (mapping == nullptr) return 0;
  return std::erase_if(mapping->entries, [key](const Node::Entry& entry) { return entry.key.text == key; });
}

}  // namespace

bool is_off(const Node& value) {
  static constexpr std::array<std::string_view, 8> kOff = {"",  "null", "false", "False",
                                                           "0", "0.0",  "none",  "None"};
  switch (value.kind) {
    case Node::Kind::nothing:
      return true;
    case Node::Kind::scalar:
      return std::ranges::find(kOff, value.text) != kOff.end();
    case Node::Kind::list:
      return value.items.empty();
    case Node::Kind::mapping:
      return value.entries.empty();
  }
  return false;
}

HuggingFaceConfig::HuggingFaceConfig(Node root, Problem& problem)
    : root_(std::move(root)), problem_(&problem) {
  // The first of these keys is used, because a model has only one text model.
  for (const std::string_view key : kNestedKeys) {
    const Node* value = std::as_const(root_).find(key);
    if (value != nullptr && value->kind == Node::Kind::mapping && nested_key_.empty()) nested_key_ = key;
  }
  read_.insert(nested_key_);
}

const Node* HuggingFaceConfig::nested() const {
  return nested_key_.empty() ? nullptr : root_.find(nested_key_);
}

bool HuggingFaceConfig::ignore(std::string_view key) {
  Node* inner = nested_key_.empty() ? nullptr : root_.find(nested_key_);
  // The key is removed from the text model and from the root. The text model itself is never removed.
  const std::size_t count = erase(inner, key) + (key == nested_key_ ? 0 : erase(&root_, key));
  return count > 0;
}

std::vector<std::string_view> HuggingFaceConfig::keys() const {
  std::vector<std::string_view> keys;
  for (const Node* mapping : {nested(), &root_}) {
    if (mapping == nullptr) continue;
    std::ranges::transform(mapping->entries, std::back_inserter(keys),
                           [](const Node::Entry& entry) { return std::string_view(entry.key.text); });
  }
  return keys;
}

const Node* HuggingFaceConfig::value_of(std::string_view key) const {
  // The text model is searched first, because the root may have the same key for another part.
  for (const Node* mapping : {nested(), &root_}) {
    const Node* value = mapping == nullptr ? nullptr : mapping->find(key);
    if (value != nullptr && !is_null(*value)) return value;
  }
  return nullptr;
}

bool HuggingFaceConfig::has(std::string_view key) const { return value_of(key) != nullptr; }

const Node* HuggingFaceConfig::find(const KeyNames& names) {
  know(names);
  for (const std::string_view name : names) {
    if (const Node* value = value_of(name)) return value;
  }
  return nullptr;
}

void HuggingFaceConfig::know(const KeyNames& names) { read_.insert(names.begin(), names.end()); }

std::optional<std::int64_t> HuggingFaceConfig::size(const KeyNames& names, Range range) {
  const Node* value = find(names);
  if (value == nullptr) return std::nullopt;
  const auto size = integer_of(*value, range);
  if (!size) complain(*value, names.front(), size.error());
  // The least valid number replaces a missing one, so that reading continues and can find further errors.
  return size.value_or(range.least);
}

std::optional<std::int64_t> HuggingFaceConfig::size_if_any(const KeyNames& names, Range range) {
  const Node* value = find(names);
  return value == nullptr || is_off(*value) ? std::nullopt : size(names, range);
}

std::int64_t HuggingFaceConfig::required(const KeyNames& names, Range range) {
  const auto value = size(names, range);
  if (!value) complain(root_, "", fmt::format("expected {}, got nothing", fmt::join(names, " or ")));
  return value.value_or(1);
}

std::optional<bool> HuggingFaceConfig::flag(const KeyNames& names) {
  const Node* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (value->kind == Node::Kind::scalar && (value->text == "true" || value->text == "True")) return true;
  if (value->kind == Node::Kind::scalar && (value->text == "false" || value->text == "False")) return false;
  complain(*value, names.front(), fmt::format("expected true or false, got {}", describe(*value)));
  return std::nullopt;
}

std::string HuggingFaceConfig::word(const KeyNames& names) {
  const Node* value = find(names);
  if (value == nullptr) return "";
  if (value->kind != Node::Kind::scalar)
    complain(*value, names.front(), fmt::format("expected a word, got {}", describe(*value)));
  return value->text;
}

std::vector<std::int64_t> HuggingFaceConfig::numbers(std::string_view key, Range range) {
  const Node* value = find({key});
  if (value == nullptr) return {};
  if (value->kind != Node::Kind::list)
    complain(*value, key, fmt::format("expected a list of whole numbers, got {}", describe(*value)));
  std::vector<std::int64_t> numbers;
  for (const Node& item : value->items) {
    const auto number = integer_of(item, range);
    if (!number) complain(item, key, number.error());
    numbers.push_back(number.value_or(range.least));
  }
  return numbers;
}

std::vector<std::string> HuggingFaceConfig::words(const KeyNames& names) {
  const Node* value = find(names);
  if (value == nullptr) return {};
  if (value->kind != Node::Kind::list)
    complain(*value, names.front(), fmt::format("expected a list of words, got {}", describe(*value)));
  std::vector<std::string> words;
  words.reserve(value->items.size());
  for (const Node& item : value->items) words.push_back(item.text);
  return words;
}

void HuggingFaceConfig::add_unpriced(const Node& node, std::string_view key, std::string_view detail) {
  noted_.push_back(
      {.place = &node, .key = std::string(key), .description = fmt::format("{} ({})", key, detail)});
}

std::vector<HuggingFaceConfig::Unread> HuggingFaceConfig::unread() const {
  std::vector<Unread> keys;
  // The text model's keys come first, because a message shows the place of the first key.
  const auto add_from = [&](const Node* mapping) {
    if (mapping == nullptr) return;
    for (const Node::Entry& entry : mapping->entries) {
      const std::string& key = entry.key.text;
      if (read_.contains(key) || is_off(entry.value) || is_without_price(key)) continue;
      if (entry.value.kind == Node::Kind::mapping && is_other_part(key)) continue;
      // A mapping describes a part of the model. Single values next to a text model only describe how the
      // parts are combined, so they do not count.
      const bool is_outer = mapping == &root_ && !nested_key_.empty();
      const bool hints = entry.value.kind == Node::Kind::mapping || (!is_outer && hints_at_structure(key));
      keys.push_back({.key = &entry.key, .hints = hints});
    }
  };
  add_from(nested());
  add_from(&root_);
  return keys;
}

std::vector<UnpricedKey> HuggingFaceConfig::unpriced() const {
  std::vector<UnpricedKey> keys = noted_;
  for (const auto& [key, hints] : unread()) {
    if (hints) keys.push_back({.place = key, .key = key->text, .description = key->text});
  }
  return keys;
}

std::vector<std::string> HuggingFaceConfig::unknown() const {
  std::vector<std::string> keys;
  for (const auto& [key, hints] : unread()) {
    if (!hints) keys.push_back(key->text);
  }
  return keys;
}

std::vector<std::string> HuggingFaceConfig::other_parts() const {
  std::vector<std::string> parts;
  for (const Node::Entry& entry : root_.entries) {
    const bool is_part = entry.value.kind == Node::Kind::mapping && !is_off(entry.value);
    if (is_part && is_other_part(entry.key.text)) parts.push_back(entry.key.text);
  }
  return parts;
}

void HuggingFaceConfig::complain(const Node& node, std::string_view key, std::string_view text) const {
  problem_->note(node, key, text);
}

void HuggingFaceConfig::complain(const KeyNames& names, std::string_view text) {
  const Node* value = find(names);
  complain(value != nullptr ? *value : root_, value != nullptr ? names.front() : "", text);
}

// Classifies a key by its words, which are separated by underscores. The last word usually determines the
// kind of key. For example, keys that end in "_token_id" or "_dropout" have no cost, even in future models.
// Other keys that contain a word for a model part describe structures whose cost Penstock cannot compute.

namespace {

constexpr auto kEndings = std::to_array<std::string_view>(
    {"_id",      "_ids",        "_token",      "_tokens",         "_token_index", "_eps",
     "_epsilon", "dropout",     "_pdrop",      "_prob",           "_coef",        "_coeff",
     "_std",     "_theta",      "_scaling",    "_scaling_factor", "_range",       "_dtype",
     "_version", "_path",       "_penalty",    "_softcapping",    "_beta",        "_alpha",
     "_init",    "_multiplier", "_multipliers"});

constexpr auto kBeginnings = std::to_array<std::string_view>(
    {"_", "rope_", "rotary_", "summary_", "output_", "router_aux_", "router_z_", "return_dict",
     "initializer_", "mtp_", "time_step_", "layernorm_full_", "layernorm_linear_", "layernorm_mlp_"});

constexpr auto kWithoutPrice = std::to_array<std::string_view>(
    {// storage and loading of weights
     "architectures", "auto_map", "custom_pipelines", "dtype", "torchscript", "torch_dtype", "use_bfloat16",
     "tf_legacy_loss", "pruned_heads", "tokenizer_class", "quantization", "quantization_config",
     "compression_config", "unsloth_fixed", "for_llm_compressor", "pretraining_tp", "ep_size", "is_decoder",
     "name_or_path", "use_mamba_kernels", "expert_dtype",
     // settings of text generation
     "use_cache", "cache_implementation", "temperature", "top_k", "top_p", "typical_p", "num_beams",
     "num_beam_groups", "num_return_sequences", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
     "max_length", "min_length", "do_sample", "early_stopping", "suppress_tokens", "begin_suppress_tokens",
     "remove_invalid_values", "exponential_decay_length_penalty", "prefix", "problem_type", "finetuning_task",
     "task_specific_params", "id2label", "label2id", "num_labels", "keys_to_ignore_at_inference",
     "use_return_dict", "chunk_size_feed_forward", "attn_implementation", "use_flash_attn",
     "use_flash_attention_2", "model_max_length", "gradient_checkpointing", "use_cache_quantization",
     "use_cache_kernel",
     // rotary angles and the maximal length of a text
     "max_position_embeddings", "original_max_position_embeddings", "initial_context_length", "n_ctx",
     "n_positions", "seq_length", "max_seq_len", "max_seq_length", "max_sequence_length",
     "partial_rotary_factor", "embedding_multiplier", "attention_multiplier", "residual_multiplier",
     "initializer_cutoff_factor", "no_rope_layers", "no_rope_layer_interval", "alibi", "use_rope",
     "use_dynamic_ntk", "use_logn_attn", "attn_temperature_tuning", "attn_scale", "floor_scale",
     "position_embedding_type", "mscale",
     // operations on existing values
     "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "scale_attn_weights",
     "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "query_pre_attn_scalar", "logit_scale",
     "logits_scaling", "scale_emb", "scale_depth", "dim_model_base", "clip_qkv", "swiglu_limit", "norm_head",
     "norm_topk_prob", "moe_norm_topk_prob", "scoring_func", "score_function", "score_func", "seq_aux",
     "routed_scaling", "apply_residual_connection_post_layernorm", "slow_but_exact", "hidden_act_param",
     "skip_bias_add", "moe_router_dtype", "moe_use_hardware_topk", "router_jitter_noise",
     "input_jitter_noise", "moe_capacity", "moe_gate", "rotary", "layerdrop", "masked_softmax_fusion",
     "offset_alibi", "sliding_window_size", "bias_dropout_fusion", "shared_moe_mode", "compression_ratio",
     "moe_capacity_factor", "use_gated_activation", "layer_switch", "use_parallel_block",
     "use_parallel_embedding", "order_of_interleaved_layers", "use_embedding_sharing",
     "transformers.js_config", "generation_config", "rms_norm", "residual_in_fp32",
     "rescale_prenorm_residual", "num_logits_to_keep", "mamba_hidden_act", "mamba_norm_before_gate",
     "mamba_dt_min", "mamba_dt_max", "mamba_dt_limit", "mamba_dt_init_floor", "moe_shared_expert_overlap",
     "indexer_rope_interleave", "attention_value_scale", "mla_use_nope", "moe_router_activation_func",
     "moe_renormalize", "full_attn_alpha_factor", "linear_attn_alpha_factor", "mlp_alpha_factor", "postnorm",
     "mamba_use_mlp", "mlp_expansion_factor", "linear_allow_neg_eigval", "use_grouped_topk", "init_method",
     "normalization_function",
     // multi-token prediction, which has a price only if a scenario requests it
     "num_nextn_predict_layers", "num_mtp_modules", "use_mtp", "mtp_transformer_layers", "num_mtp_layers",
     "mtp_loss_weight"});

constexpr auto kStructureWords = std::to_array<std::string_view>(
    {"adapter",     "adapters",    "altup",        "audio",      "bias",       "block",       "blocks",
     "blocksparse", "bottleneck",  "cla",          "compress",   "compressed", "compression", "conv",
     "conv1d",      "convolution", "cross",        "decoder",    "dense",      "depthwise",   "dim",
     "dims",        "dt",          "embedding",    "embeddings", "encoder",    "engram",      "expand",
     "expert",      "experts",     "ffn",          "gate",       "gated",      "gates",       "gating",
     "head",        "heads",       "hidden",       "hybrid",     "image",      "images",      "index",
     "indexer",     "inner",       "intermediate", "kernel",     "latent",     "laurel",      "layer",
     "layernorm",   "layers",      "lightning",    "linear",     "lora",       "lru",         "mamba",
     "memory",      "mixer",       "mlp",          "mm",         "moba",       "moe",         "mtp",
     "multimodal",  "nextn",       "norm",         "norms",      "patch",      "projector",   "rank",
     "recurrent",   "retention",   "rwkv",         "share",      "shared",     "sink",        "sinks",
     "sparse",      "speech",      "ssm",          "state",      "tower",      "video",       "vision",
     "visual",      "vit",         "width",        "pattern",    "period"});

/// The words by which keys of other parts than the text model are recognised, such as an image encoder.
constexpr auto kOtherPartWords =
    std::to_array<std::string_view>({"vision", "visual", "vit", "sam", "image", "video", "audio", "speech",
                                     "sound", "projector", "talker", "code2wav", "tts"});

template <std::size_t count>
bool holds(const std::array<std::string_view, count>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

bool is_without_price(std::string_view key) {
  const auto ends = [key](std::string_view ending) { return key.ends_with(ending); };
  const auto begins = [key](std::string_view beginning) { return key.starts_with(beginning); };
  return holds(kWithoutPrice, key) || std::ranges::any_of(kEndings, ends) ||
         std::ranges::any_of(kBeginnings, begins);
}

namespace {

// Words are compared as a whole: "mamba_dim" contains the word "dim", but "dimension" does not.
template <std::size_t count>
bool has_word_of(const std::array<std::string_view, count>& words, std::string_view key) {
  while (!key.empty()) {
    const std::size_t end = std::min(key.find('_'), key.size());
    if (holds(words, key.substr(0, end))) return true;
    key.remove_prefix(std::min(end + 1, key.size()));
  }
  return false;
}

}  // namespace

bool hints_at_structure(std::string_view key) { return has_word_of(kStructureWords, key); }

bool is_other_part(std::string_view key) { return has_word_of(kOtherPartWords, key); }

}  // namespace penstock
