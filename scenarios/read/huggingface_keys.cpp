// Classifies a key by its words, which are separated by underscores. The last word usually tells the kind of
// key. For example, keys that end in "_token_id" or "_dropout" have no price, even in future models. Other
// keys that contain a word for a model part are structures that Penstock cannot price.

#include "scenarios/read/huggingface_keys.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace penstock {
namespace {

constexpr auto kEndings = std::to_array<std::string_view>(
    {"_id",    "_ids",   "_token",   "_tokens", "_token_index", "_eps",         "_epsilon", "dropout",
     "_pdrop", "_prob",  "_coef",    "_coeff",  "_std",         "_theta",       "_scaling", "_scaling_factor",
     "_range", "_dtype", "_version", "_path",   "_penalty",     "_softcapping", "_beta",    "_alpha",
     "_init"});

constexpr auto kBeginnings =
    std::to_array<std::string_view>({"_", "rope_", "rotary_", "summary_", "output_", "router_aux_",
                                     "router_z_", "return_dict", "initializer_"});

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
     "transformers.js_config", "generation_config", "rms_norm",
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

// Words are compared as a whole: "mamba_dim" contains the word "dim", but "dimension" does not.
bool hints_at_structure(std::string_view key) {
  while (!key.empty()) {
    const std::size_t end = std::min(key.find('_'), key.size());
    if (holds(kStructureWords, key.substr(0, end))) return true;
    key.remove_prefix(std::min(end + 1, key.size()));
  }
  return false;
}

}  // namespace penstock
