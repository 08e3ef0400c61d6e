// Reads arguments of Megatron-LM, and configurations that use its names: Megatron Bridge and Primus.
//
// Most arguments become one key of the scenario (kCopied). The functions below compute the settings that
// depend on several arguments: the cut of the layers, the schedule, the exchange of experts, recomputation
// and precision. They follow the rules of megatron/training/arguments.py and transformer_config.py of
// core_v0.15.0. sim/choose/launchers.cpp writes the same arguments from a scenario.
// tests/sim/import_emitted_test.cpp checks that reading these arguments gives the scenario back.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "scenarios/import/importers.hpp"
#include "scenarios/import/plan.hpp"
#include "scenarios/import/settings.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "text/enum_words.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

using RowKind = CopiedRow::Kind;

constexpr auto kCopied = std::to_array<CopiedRow>({
    {"num_layers", "model.layers"},
    {"hidden_size", "model.hidden"},
    {"num_attention_heads", "model.heads"},
    {"kv_channels", "model.head_dim"},
    {"ffn_hidden_size", "model.feed_forward"},
    {"encoder_seq_length", "model.sequence"},
    {"seq_length", "model.sequence"},
    {"vocab_size", "model.vocabulary"},
    {"padded_vocab_size", "model.vocabulary"},
    {"mtp_num_layers", "model.multi_token"},
    {"ddp_bucket_size", "parallel.bucket_size"},
    {"microbatch_group_size_per_virtual_pipeline_stage", "schedule.group_size"},
    {"microbatch_group_size_per_vp_stage", "schedule.group_size"},
    {"defer_embedding_wgrad_compute", "training.deferred_head", RowKind::on},
});

constexpr std::string_view kNoEffect = "does not change the time or the memory of a step";
constexpr std::string_view kNoPrice = "has no price here";
constexpr std::string_view kDataReason = "concerns data and the tokenizer";
constexpr std::string_view kLearning = "concerns what is learned, not how long it takes";
constexpr std::string_view kLogs = "concerns logs, checkpoints and evaluation between steps";
constexpr std::string_view kKernels = "the prices hold for fused kernels as they are measured";
constexpr std::string_view kOffload = "moves memory to the host, which has no price here";
constexpr std::string_view kOtherModel =
    "describes a part of the model that model.transformer lacks; give --model config.json";

constexpr auto kSettled = std::to_array<SettledRow>({
    {"data_path data_args_path train_data_path valid_data_path test_data_path split vocab_file merge_file "
     "tokenizer_* mock_data data_cache_path num_workers dataloader_type reset_position_ids "
     "reset_attention_mask "
     "eod_mask_loss no_mmap_bin_files no_create_attention_mask_in_dataloader tiktoken_* "
     "per_split_data_args_path "
     "multiple_validation_sets data_sharding dataset* legacy_tokenizer",
     Fate::ignored, kDataReason},
    {"lr lr_* min_lr weight_decay* start_weight_decay end_weight_decay adam_beta1 adam_beta2 adam_eps "
     "clip_grad "
     "init_method_std init_method_xavier_uniform attention_dropout hidden_dropout dropout seed decoupled_lr "
     "decoupled_min_lr loss_scale initial_loss_scale min_loss_scale loss_scale_window hysteresis "
     "override_opt_param_scheduler "
     "use_checkpoint_opt_param_scheduler moe_aux_loss_coeff moe_z_loss_coeff moe_router_load_balancing_type "
     "moe_router_bias_update_rate moe_router_score_function moe_router_enable_expert_bias "
     "moe_router_topk_scaling_factor "
     "moe_router_pre_softmax moe_router_dtype "
     "moe_router_force_load_balancing "
     "mtp_loss_scaling_factor calculate_per_token_loss muon_* wsd* check_for_nan_in_loss_and_grad "
     "no_check_for_nan_in_loss_and_grad disable_nan_check norm_epsilon layernorm_epsilon apply_layernorm_1p "
     "rotary_* use_rope_scaling rope_* no_rope_freq max_position_embeddings no_position_embedding "
     "add_position_embedding "
     "original_max_position_embeddings squared_relu",
     Fate::ignored, kLearning},
    {"train_iters train_samples exit_* save save_* load load_* no_load_* no_save_* log_* eval_* "
     "tensorboard_* wandb_* "
     "no_log_* finetune use_checkpoint_args ckpt_* dist_ckpt_* async_save async_* use_dist_ckpt "
     "auto_detect_ckpt_format "
     "use_mp_args_from_checkpoint_args use_persistent_ckpt_worker timing_log_* profile profile_* "
     "use_pytorch_profiler "
     "record_memory_history memory_snapshot_path manual_gc manual_gc_* skip_train do_valid do_test do_train "
     "pretrained_checkpoint checkpoint_activations_* job_dir inprocess_restart one_logger* enable_one_logger "
     "enable_experimental enable_ft_package ft_* nccl_communicator_config_path stderr_sink_level "
     "file_sink_level sink_level "
     "log_avg_* disable_* auto_continue_train wandb* run_name exp_name exp_dir user_name workspace "
     "work_group trainable "
     "perform_initialization no_initialization consumed_* throughput_* dump_* straggler_* config "
     "entry_script",
     Fate::ignored, kLogs},
    {"attention_backend use_flash_attn use_flash_attention_v2 transformer_impl use_transformer_engine "
     "use_mcore_models "
     "use_legacy_models cross_entropy_loss_fusion cross_entropy_fusion_impl no_masked_softmax_fusion "
     "no_bias_gelu_fusion no_bias_swiglu_fusion no_bias_dropout_fusion no_rope_fusion rope_fusion "
     "no_gradient_accumulation_fusion "
     "gradient_accumulation_fusion apply_query_key_layer_scaling attention_softmax_in_fp32 moe_grouped_gemm "
     "moe_use_legacy_grouped_gemm moe_permute_fusion moe_router_fusion moe_router_padding_for_fp8 "
     "moe_router_padding_for_quantization moe_pad_expert_input_to_capacity cuda_graph_* enable_cuda_graph "
     "external_cuda_graph "
     "te_rng_tracker use_te* te_* persist_layer_norm no_persist_layer_norm bias_* masked_softmax_fusion "
     "fused_* enable_primus_turbo "
     "use_turbo_* turbo_* use_fused_* moe_use_fused_* use_primus_turbo* primus_turbo*",
     Fate::ignored, kKernels},
    {"distributed_timeout_minutes tp_comm_bootstrap_backend use_cpu_initialization "
     "average_in_collective ddp_average_in_collective check_for_nan_in_grad local_rank "
     "enable_gloo_process_groups disable_gloo_process_groups bf16_mixed lazy_mpu_init "
     "use_tp_pp_dp_mapping enable_msc no_enable_msc is_hybrid_model",
     Fate::ignored, kNoEffect},
    {"distributed_backend no_async_tensor_model_parallel_allreduce tp_comm_overlap_* "
     "disable_tp_comm_* fp8_amax_* fp8_recipe fp8_margin fp8_interval fp8_wgrad "
     "first_last_layers_bf16 num_layers_at_start_in_bf16 num_layers_at_end_in_bf16 fp4_recipe "
     "fp8_param_gather fp4_param_gather keep_fp8_weight_transpose_cache "
     "reuse_grad_buf_for_mxfp8_param_ag accumulate_allreduce_grads_in_fp32 grad_reduce_in_fp32 "
     "attention_softmax_in_fp32 empty_unused_memory_level delay_wgrad_compute wgrad_deferral_limit "
     "overlap_param_gather overlap_param_gather_with_optimizer_step align_grad_reduce "
     "align_param_gather ddp_num_buckets ddp_pad_buckets_for_high_nccl_busbw ddp_impl "
     "use_ring_exchange_p2p batch_p2p_comm overlap_p2p_comm "
     "overlap_p2p_communication_warmup_flush pipeline_dtype params_dtype variable_seq_lengths "
     "distribute_saved_activations high_priority_stream_groups num_distributed_optimizer_instances "
     "nccl_ub use_sharp sharp_* moe_shared_expert_overlap moe_layer_recompute "
     "expert_model_parallel_size context_parallel_size deterministic_mode fp16_lm_cross_entropy "
     "moe_expert_capacity_factor deepep_* moe_deepep_num_sms moe_hybridep_num_sms moe_paged_stash "
     "stash_modules",
     Fate::ignored, kNoPrice},
    {"node_rank master_addr master_port rdzv_* rdzv-id monitor_interval max_restarts standalone tee "
     "redirects "
     "local_ranks_filter log_dir role start_method ntasks* container_* no_container_* mpi account partition "
     "job_name time output error dockerfile pytorch_base_image",
     Fate::ignored, "concerns how the processes are started"},
    {"gated_linear_unit activation_func", Fate::ignored, "swiglu states the activation"},
    {"num_of_* use_mnnvl cuda_device_max_connections cublas_* n_repeat nccl_* nvte_* torch_* pytorch_* np_* "
     "omp_num_threads "
     "non_deterministic_ops_allowed "
     "gpu_max_hw_queues hsa_* test_type metrics model_name",
     Fate::ignored, "is an environment variable or the setting of a test"},
    {"rampup_batch_size", Fate::ignored, "the full batch is predicted"},
    {"cpu_offloading cpu_offloading_* optimizer_cpu_offload optimizer_offload_fraction "
     "optimizer_offload_policy swap_* fine_grained_activation_offloading "
     "offload_modules use_precision_aware_optimizer_offload offload_optimizer_states",
     Fate::refused, kOffload},
    {"use_precision_aware_optimizer main_grads_dtype main_params_dtype exp_avg_dtype exp_avg_sq_dtype",
     Fate::ignored,
     "the optimizer's state has values of 4 bytes here, so its memory may be predicted too large"},
    {"q_lora_rank kv_lora_rank qk_head_dim qk_pos_emb_head_dim v_head_dim", Fate::ignored,
     "Megatron-LM reads it only with --multi-latent-attention"},
    {"moe_router_topk moe_router_num_groups moe_router_group_topk moe_ffn_hidden_size moe_layer_freq "
     "moe_shared_expert_intermediate_size moe_intermediate_size n_shared_experts first_k_dense_replace "
     "n_group topk_group",
     Fate::ignored, "num_experts is not stated"},
    {"spec", Fate::refused,
     "names layers that are written in Python, which is not read; leave it out if the other arguments "
     "describe the whole model"},
    {"noop_layers", Fate::refused,
     "leaves these layers empty, so that stages have unlike numbers of layers; state the other layers as "
     "num_layers, and the stages by --pipeline-model-parallel-layout"},
    {"schedules_method", Fate::refused,
     "replaces the schedule, which is not imported; state schedule.name and schedule.virtual_stages"},
    {"moe_fb_overlap use_ascend_mc2 moe_tp_extend_ep moe_permutation_async_comm moe_alltoall_overlap_comm "
     "moe_allgather_overlap_comm reuse_fp32_param",
     Fate::ignored, kNoPrice},
    {"hybrid_override_pattern hybrid_layer_pattern hybrid_attention_ratio hybrid_mlp_ratio mamba_* "
     "linear_attention_* "
     "linear_* experimental_attention_variant encoder_num_layers decoder_num_layers decoder_seq_length "
     "parallel_residual apply_residual_connection_post_layernorm encoder_pipeline_model_parallel_size "
     "heterogeneous_layers_config_path window_attn_skip_freq softmax_type glu_linear_offset",
     Fate::refused, kOtherModel},
    {"untie_embeddings_and_output_weights add_qkv_bias attention_output_gate", Fate::ignored,
     "the part of the model that it adds is too small to count"},
    {"zero_stage", Fate::refused, "Megatron-DeepSpeed reads it only with --deepspeed"},
    {"deepspeed_config", Fate::ignored, "the file is not read; --zero-stage states how it divides the state"},
    {"deepspeed_activation_checkpointing deepspeed_*", Fate::ignored,
     "says which code stores checkpoints; --checkpoint-activations says which layers have them"},
    {"no_pipeline_parallel", Fate::refused, "the stages of this run are no pipeline"},
    {"standalone_embedding_stage pipeline_model_parallel_split_rank use_tp_dp_pp_mapping", Fate::refused,
     "places stages in a way that no schedule here has"},
});

/// Returns the list that a Python text such as "([0]*3+[1]*58)" or "[1,0,1]" denotes, or nothing for any
/// other text.
std::optional<std::vector<std::int64_t>> list_of_pattern(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '(' || c == ')' || c == '"' || c == '\''; });
  std::vector<std::int64_t> all;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view term = rest.substr(0, rest.find('+'));
    rest.remove_prefix(std::min(term.size() + 1, rest.size()));
    const std::size_t close = term.find(']');
    if (!term.starts_with('[') || close == std::string_view::npos) return std::nullopt;
    std::vector<std::int64_t> items;
    for (std::string_view inside = term.substr(1, close - 1); !inside.empty();) {
      const std::string_view item = inside.substr(0, inside.find(','));
      inside.remove_prefix(std::min(item.size() + 1, inside.size()));
      const auto number = number_of_text<std::int64_t>(item);
      if (!number) return std::nullopt;
      items.push_back(*number);
    }
    const std::string_view times = term.substr(close + 1);
    const auto count = times.empty()
                           ? std::optional<std::int64_t>(1)
                           : number_of_text<std::int64_t>(times.substr(times.starts_with('*') ? 1 : 0));
    constexpr std::int64_t kMost = 100'000;
    if (!count || *count < 0 || *count > kMost || items.size() > 1000) return std::nullopt;
    for (std::int64_t i = 0; i < *count; ++i) all.insert(all.end(), items.begin(), items.end());
  }
  return all;
}

// --- the model --------------------------------------------------------------------------------------------

/// Increases the vocabulary to the size that Megatron-LM pads it to, so that it can be divided by the
/// tensor-parallel degree.
void pad_vocabulary(Importing& importing) {
  const auto vocabulary = importing.plan.number("model.vocabulary");
  if (!vocabulary) {
    importing.settings.ignore("make_vocab_size_divisible_by",
                              importing.has_model ? "--model states the model" : "no vocabulary is stated");
    return;
  }
  constexpr std::string_view kDivisor = "make_vocab_size_divisible_by";
  const std::string* stated = importing.settings.find(kDivisor);
  importing.settings.take(kDivisor, "model.transformer.vocabulary");
  const auto multiple = stated == nullptr ? std::nullopt : number_of_text<std::int64_t>(*stated);
  const std::int64_t step = std::max<std::int64_t>(1, multiple.value_or(128)) * importing.plan.tensor;
  const std::int64_t padded = (*vocabulary + step - 1) / step * step;
  if (padded == *vocabulary || importing.settings.has("padded_vocab_size")) return;
  importing.plan.set("model.vocabulary", padded);
  importing.plan.notes.push_back(fmt::format("the vocabulary of {} entries is padded to {}, a multiple of {}",
                                             *vocabulary, padded, step));
  importing.settings.take(
      "vocab_size",
      fmt::format("model.transformer.vocabulary, padded to {}, a multiple of {}", padded, step));
}

/// Returns the vocabulary of the known model whose tokenizer the arguments name, such as
/// "Qwen/Qwen3-30B-A3B".
std::optional<std::int64_t> vocabulary_of_model(const Importing& importing) {
  const std::string* name = importing.settings.find("tokenizer_model");
  Plan known;
  if (name == nullptr || !set_known_model(known, *name)) return std::nullopt;
  if (known.library_model.empty()) return known.number("model.vocabulary");
  const auto part = load_architecture({.config = known.library_model});
  return part ? std::optional(part->architecture.vocabulary) : std::nullopt;
}

/// Sets the vocabulary to the known size of the stated tokenizer, if the arguments state no vocabulary size.
void guess_vocabulary(Importing& importing) {
  if (importing.plan.find("model.vocabulary") != nullptr || importing.plan.find("model.hidden") == nullptr)
    return;
  if (const auto entries = vocabulary_of_model(importing)) {
    importing.plan.set("model.vocabulary", *entries);
    importing.settings.take(
        "tokenizer_model",
        fmt::format("model.transformer.vocabulary: that of the model, {} entries", *entries));
    return;
  }
  struct Tokenizer {
    std::string_view name;
    std::int64_t entries = 0;
  };
  constexpr auto kTokenizers = std::to_array<Tokenizer>(
      {{"GPT2BPETokenizer", 50257}, {"Llama2Tokenizer", 32000}, {"Llama3Tokenizer", 128256}});
  // Old scripts may state a merge file but no type of tokenizer. They mean the tokenizer of GPT-2.
  const std::string* stated = importing.settings.find("tokenizer_type");
  const bool merges = importing.settings.has("merge_file");
  const std::string_view type = stated != nullptr ? std::string_view(*stated)
                                : merges          ? "GPT2BPETokenizer"
                                                  : "";
  const auto found = std::ranges::find(kTokenizers, type, &Tokenizer::name);
  if (found == kTokenizers.end()) return;
  importing.plan.set("model.vocabulary", found->entries);
  importing.settings.take(
      stated != nullptr ? "tokenizer_type" : "merge_file",
      fmt::format("model.transformer.vocabulary: that of {}, {} entries", type, found->entries));
}

void take_experts(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const auto experts = settings.number("num_experts", "model.transformer.experts");
  if (experts) {
    plan.set("model.experts", *experts);
    plan.set("model.experts_per_token",
             settings.number("moe_router_topk", "model.transformer.experts_per_token").value_or(2));
  }
  if (plan.find("model.experts") == nullptr) return;
  // MindSpeed has the name of Hugging Face, too.
  for (const std::string_view name : {"moe_intermediate_size", "moe_ffn_hidden_size"}) {
    if (const auto inner = settings.number(name, "model.transformer.expert_feed_forward"))
      plan.set("model.expert_feed_forward", *inner);
  }
  take_shared_experts(importing);
  constexpr auto kGroups =
      std::to_array<CopiedRow>({{"moe_router_num_groups", "model.expert_groups"},
                                {"moe_router_group_topk", "model.expert_groups_per_token"},
                                {"n_group", "model.expert_groups"},  // MindSpeed has these four names
                                {"topk_group", "model.expert_groups_per_token"},
                                {"n_shared_experts", "model.shared_experts", RowKind::number, 0},
                                {"first_k_dense_replace", "model.dense_layers", RowKind::number, 0}});
  copy_rows(importing, kGroups);
  const std::string* frequency = settings.find("moe_layer_freq");
  if (settings.has("first_k_dense_replace") && frequency != nullptr && *frequency == "1") {
    settings.take("moe_layer_freq", "model.transformer.dense_layers: those of first_k_dense_replace");
    return;
  }
  if (frequency == nullptr || *frequency == "1") {
    settings.take("moe_layer_freq", "model.transformer.dense_layers: none");
    return;
  }
  const auto kinds = list_of_pattern(*frequency);
  const auto dense = kinds ? std::ranges::find(*kinds, 1) - kinds->begin() : 0;
  const bool is_prefix =
      kinds && std::all_of(kinds->begin() + dense, kinds->end(), [](auto kind) { return kind == 1; });
  if (!is_prefix) {
    settings.refuse("moe_layer_freq",
                    "dense layers must come before all layers with experts, as in ([0]*3+[1]*58)");
    return;
  }
  plan.set("model.dense_layers", dense);
  settings.take("moe_layer_freq", "model.transformer.dense_layers");
}

/// Returns true if the key states a value that means "off". Marks the key as taken then.
bool is_stated_off(Settings& settings, std::string_view name, std::string_view target) {
  const std::string* value = settings.find(name);
  if (value == nullptr || !is_off_value(*value)) return false;
  settings.take(name, target);
  return true;
}

/// Returns true if YAML states a gated activation by its name: Megatron-LM's as activation_func
/// (yaml_arguments.py), and NeMo's as activation.
bool names_gated_activation(Settings& settings) {
  constexpr auto kGated =
      std::to_array<std::string_view>({"swiglu", "fastswiglu", "geglu", "fastgeglu", "reglu", "fastreglu"});
  for (const std::string_view name : {"activation_func", "activation"}) {
    const std::string* value = settings.find(name);
    if (value == nullptr || std::ranges::find(kGated, plain_name(*value)) == kGated.end()) continue;
    settings.take(name, "model.transformer.gated");
    return true;
  }
  return false;
}

/// Sets the options of a layer that Megatron-LM's arguments switch on or off. Absent arguments have
/// Megatron-LM's defaults.
void take_architecture(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  if (plan.find("model.hidden") == nullptr || plan.find("model.gated") != nullptr) return;
  const bool is_named = names_gated_activation(settings);
  const bool is_switched = settings.is_on("gated_linear_unit", "model.transformer.gated");
  const bool gated = settings.is_on("swiglu", "model.transformer.gated") || is_named || is_switched;
  plan.set("model.gated", gated ? "true" : "false");
  if (gated && plan.find("model.feed_forward") == nullptr) {
    // This is the size that Megatron-LM computes in arguments.py: int((4 * hidden_size * 2 / 3) / 64) * 64
    plan.set("model.feed_forward", *plan.number("model.hidden") * 8 / 3 / 64 * 64);
  }
  const std::string norm = settings.word("normalization", "model.transformer.norm").value_or("LayerNorm");
  plan.set("model.norm", plain_name(norm) == "rmsnorm" ? "rms" : "layer");
  const bool has_none = is_stated_off(settings, "add_bias_linear", "model.transformer.biases") ||
                        is_stated_off(settings, "bias", "model.transformer.biases");
  plan.set("model.biases",
           settings.is_on("disable_bias_linear", "model.transformer.biases") || has_none ? "false" : "true");
  const std::string positions =
      settings.word("position_embedding_type", "model.transformer.positions").value_or("learned_absolute");
  const bool rotary = settings.is_on("use_rotary_position_embeddings", "model.transformer.positions");
  plan.set("model.positions", positions == "learned_absolute" && !rotary ? "learned" : "rotary");
  constexpr std::string_view kShared = "share_embeddings_and_output_weights";
  const bool shares_by_name = settings.has(kShared);
  const bool untied = settings.is_on("untie_embeddings_and_output_weights", "model.transformer.tied") ||
                      is_stated_off(settings, kShared, "model.transformer.tied");
  settings.take(kShared, "model.transformer.tied");
  plan.set("model.tied", untied ? "false" : "true");
  if (settings.is_on("qk_layernorm", "model.transformer.query_key_norm"))
    plan.set("model.query_key_norm", "true");
  const auto groups = settings.number("num_query_groups", "model.transformer.kv_heads");
  // TransformerConfig and NeMo, which state share_embeddings_and_output_weights, have only the number.
  if (settings.is_on("group_query_attention", "model.transformer.kv_heads") || shares_by_name) {
    if (groups) plan.set("model.kv_heads", *groups);
  } else if (groups) {
    settings.ignore("num_query_groups", "Megatron-LM reads it only with --group-query-attention");
  }
}

/// Sets the sizes of latent attention. Absent arguments have the defaults of arguments.py. Only the rank of
/// keys and values has another default in model.transformer, where it switches latent attention on.
void take_latent_attention(Importing& importing) {
  Settings& settings = importing.settings;
  // MindSpeed had other names in its first releases.
  settings.rename("multi_head_latent_attention", "multi_latent_attention");
  settings.rename("qk_nope_head_dim", "qk_head_dim");
  settings.rename("qk_rope_head_dim", "qk_pos_emb_head_dim");
  if (importing.plan.find("model.hidden") == nullptr ||
      !settings.is_on("multi_latent_attention", "model.transformer.kv_lora_rank"))
    return;
  importing.plan.set("model.kv_lora_rank", "32");
  copy_latent_sizes(importing);
  for (const std::string_view name :
       {"kv_channels", "num_query_groups", "group_query_attention", "qk_layernorm"})
    settings.ignore(name, "latent attention has its own widths and norms");
}

/// Reads the attention window from a text such as "(1024, 0)": the numbers of tokens before and after the
/// query to which it attends.
void take_window(Importing& importing) {
  Settings& settings = importing.settings;
  const std::string* window = settings.find("window_size");
  if (window == nullptr) return;
  const std::string_view text = *window;
  const auto looks_back = leading_number<std::int64_t>(text.substr(text.starts_with('(') ? 1 : 0));
  if (!looks_back.value || *looks_back.value < 1) {
    settings.refuse("window_size", "expected tokens before and after, such as (1024, 0)");
    return;
  }
  importing.plan.set("model.window", *looks_back.value);
  settings.take("window_size", "model.transformer.window");
}

void take_model(Importing& importing) {
  take_architecture(importing);
  take_latent_attention(importing);
  take_window(importing);
  take_experts(importing);
  guess_vocabulary(importing);
  pad_vocabulary(importing);
}

// --- the cut ----------------------------------------------------------------------------------------------

/// Returns the number of model chunks on each rank.
std::int64_t chunks_of(Importing& importing) {
  Settings& settings = importing.settings;
  for (const std::string_view name :
       {"num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size"}) {
    if (const auto chunks = settings.number(name, "schedule.virtual_stages")) return *chunks;
  }
  const auto of_chunk = settings.number("num_layers_per_virtual_pipeline_stage", "schedule.virtual_stages");
  if (!of_chunk) return 1;
  auto layers = importing.layers();
  if (!layers) {
    settings.refuse("num_layers_per_virtual_pipeline_stage",
                    "the chunks of a rank follow from the layers of the model; give --model config.json");
    return 1;
  }
  for (const std::string_view end :
       {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"}) {
    const std::string* value = settings.find(end);
    if (value != nullptr && !is_off_value(*value)) ++*layers;
  }
  const std::int64_t of_rank = *layers / importing.plan.stages;
  if (*layers % importing.plan.stages != 0 || of_rank % *of_chunk != 0) {
    settings.refuse(
        "num_layers_per_virtual_pipeline_stage",
        fmt::format("Megatron-LM refuses it too: {} layers on {} stages are not chunks of {} layers", *layers,
                    importing.plan.stages, *of_chunk));
    return 1;
  }
  return of_rank / *of_chunk;
}

/// Reads a pipeline layout such as "Et*3|t*4|t*3L". The layout also determines the number of chunks on each
/// rank.
void take_layout(Importing& importing, const std::string& layout) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const auto split = parse_layer_split(layout);
  if (!split) {
    settings.refuse("pipeline_model_parallel_layout", split.error());
    return;
  }
  plan.layers = split->counts;
  plan.layer_split = fmt::format("\"{}\"", layout);
  const auto stages = static_cast<std::int64_t>(split->counts.size());
  if (stages % plan.stages != 0) {
    settings.refuse(
        "pipeline_model_parallel_layout",
        fmt::format("expected stages that are a multiple of the {} ranks, got {}", plan.stages, stages));
    return;
  }
  plan.chunks = stages / plan.stages;
  settings.take("pipeline_model_parallel_layout", "schedule.layer_split");
}

/// Cuts the layers into stages if the user states the number of layers on the first or the last rank. The
/// remaining layers are divided evenly among the other ranks. All chunks of a rank have the same number of
/// layers.
void take_uneven_ends(Importing& importing, std::optional<std::int64_t> first,
                      std::optional<std::int64_t> last) {
  Plan& plan = importing.plan;
  const auto layers = importing.layers();
  const char* name = first ? "decoder_first_pipeline_num_layers" : "decoder_last_pipeline_num_layers";
  if (!layers) {
    importing.settings.refuse(
        name, "the other stages follow from the layers of the model; give --model config.json");
    return;
  }
  const std::int64_t inner_ranks = plan.stages - (first ? 1 : 0) - (last ? 1 : 0);
  const std::int64_t inner = *layers - first.value_or(0) - last.value_or(0);
  const bool divides = inner >= 0 &&
                       (inner_ranks == 0 ? inner == 0 : inner % (inner_ranks * plan.chunks) == 0) &&
                       first.value_or(0) % plan.chunks == 0 && last.value_or(0) % plan.chunks == 0;
  if (!divides) {
    importing.settings.refuse(
        name, fmt::format("Megatron-LM refuses it too: {} layers are left for {} ranks of {} chunks", inner,
                          inner_ranks, plan.chunks));
    return;
  }
  for (std::int64_t stage = 0; stage < plan.stages * plan.chunks; ++stage) {
    const std::int64_t rank = stage % plan.stages;
    const std::int64_t of_inner = inner_ranks == 0 ? 0 : inner / inner_ranks;
    const std::int64_t of_rank = rank == 0 && first                ? *first
                                 : rank == plan.stages - 1 && last ? *last
                                                                   : of_inner;
    plan.layers.push_back(of_rank / plan.chunks);
  }
  plan.layer_split = list_yaml(plan.layers);
}

/// Cuts the layers evenly into stages. If the arguments ask for it, the embedding counts as one layer, and
/// the loss counts as another.
void take_even_cut(Importing& importing) {
  Plan& plan = importing.plan;
  // Megatron-DeepSpeed has "type:transformer|embedding", which counts the embedding and the head as layers.
  const auto method = importing.settings.word("pp_partition_method", "schedule.layer_split");
  const bool by_type = method && method->find("embedding") != std::string::npos;
  const bool embedding =
      importing.settings.is_on("account_for_embedding_in_pipeline_split", "schedule.layer_split") || by_type;
  const bool loss =
      importing.settings.is_on("account_for_loss_in_pipeline_split", "schedule.layer_split") || by_type;
  const std::int64_t stages = plan.stages * plan.chunks;
  if (stages == 1) return;
  plan.layer_split = embedding && loss ? "ends-one-less" : "even";
  const auto layers = importing.layers();
  if (!layers) {
    if (embedding != loss)
      plan.refusals.emplace_back("the stages follow from the layers of the model; give --model config.json");
    return;
  }
  plan.layers = even_layers(*layers + (embedding ? 1 : 0) + (loss ? 1 : 0), stages);
  if (plan.layers.empty()) {
    plan.refusals.push_back(
        fmt::format("Megatron-LM refuses it too: {} layers{}{} do not divide into {} x {} stages; state "
                    "another number of "
                    "layers, --decoder-first-pipeline-num-layers or a layout",
                    *layers, embedding ? " and the embedding" : "", loss ? " and the loss" : "", plan.stages,
                    plan.chunks));
    return;
  }
  if (embedding) --plan.layers.front();
  if (loss) --plan.layers.back();
  if (embedding != loss) plan.layer_split = list_yaml(plan.layers);
}

/// Reads MindSpeed's list of the layers of each rank, such as "17,20,22,21".
void take_layer_list(Importing& importing, const std::string& list) {
  constexpr std::string_view kName = "num_layer_list";
  Plan& plan = importing.plan;
  const auto counts = list_of_pattern("[" + list + "]");
  const auto layers = importing.layers();
  if (!counts || static_cast<std::int64_t>(counts->size()) != plan.stages) {
    importing.settings.refuse(kName, fmt::format("expected the layers of {} ranks", plan.stages));
    return;
  }
  const std::int64_t all = std::accumulate(counts->begin(), counts->end(), std::int64_t{0});
  if (layers && all != *layers) {
    importing.settings.refuse(kName, fmt::format("expected {} layers together, got {}", *layers, all));
    return;
  }
  importing.settings.take(kName, "schedule.layer_split");
  plan.layers = *counts;
  plan.layer_split = list_yaml(plan.layers);
}

void take_cut(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  if (const std::string* layout = settings.find("pipeline_model_parallel_layout")) {
    take_layout(importing, *layout);
  } else if (const std::string* list = settings.find("num_layer_list")) {
    take_layer_list(importing, *list);
  } else {
    plan.chunks = plan.stages > 1 ? chunks_of(importing) : 1;
    const auto ends = [&](std::string_view name, std::string_view other) {
      const auto count = settings.number(name, "schedule.layer_split", 0);
      return count ? count : settings.number(other, "schedule.layer_split", 0);
    };
    const auto first = ends("decoder_first_pipeline_num_layers", "num_layers_in_first_pipeline_stage");
    const auto last = ends("decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage");
    if (first || last) {
      take_uneven_ends(importing, first, last);
    } else {
      take_even_cut(importing);
    }
  }
  plan.schedule = plan.chunks > 1 ? "interleaved" : "1f1b";
  if (plan.chunks == 1) plan.remove("schedule.group_size");
}

// --- parallelism ------------------------------------------------------------------------------------------

void take_context(Importing& importing) {
  auto type = importing.settings.word("cp_comm_type", "parallel.context_exchange");
  // MindSpeed's name.
  const auto algorithm = importing.settings.word("context_parallel_algo", "parallel.context_exchange");
  if (importing.plan.context == 1) return;
  if (algorithm && *algorithm != "megatron_cp_algo" && *algorithm != "ulysses_cp_algo") {
    importing.settings.refuse(
        "context_parallel_algo",
        "only megatron_cp_algo (a ring) and ulysses_cp_algo (an all-to-all) have a price");
    return;
  }
  if (algorithm) type = *algorithm == "ulysses_cp_algo" ? "a2a" : "p2p";
  const std::string word = type.value_or("p2p");
  if (word == "p2p" || word == "a2a") {
    importing.plan.set("parallel.context_exchange", word == "p2p" ? "ring" : "all-to-all");
    return;
  }
  importing.settings.refuse("cp_comm_type", "only p2p (a ring) and a2a (an all-to-all) have a price");
}

void take_expert_parallelism(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const std::int64_t expert = settings.number("expert_model_parallel_size", "parallel.expert").value_or(1);
  const auto shared_by = settings.number("expert_tensor_parallel_size", "parallel.expert");
  const bool may_have_experts = plan.find("model.experts") != nullptr || importing.has_model;
  if (!may_have_experts) return;
  if (expert > 1 || shared_by) plan.set("parallel.expert", expert);
  const bool has_experts =
      plan.find("model.experts") != nullptr || settings.has("expert_model_parallel_size");
  const bool cuts_experts = shared_by.value_or(plan.tensor) > 1;
  if (has_experts && cuts_experts) {
    const std::string reason = "experts are whole on their devices here (--expert-tensor-parallel-size 1)";
    if (shared_by) {
      settings.refuse("expert_tensor_parallel_size", reason);
    } else {
      plan.notes.push_back(fmt::format(
          "Megatron-LM cuts experts by tensor parallelism {} unless --expert-tensor-parallel-size states "
          "otherwise, and {}",
          plan.tensor, reason));
    }
  }
  const auto dispatcher = settings.word("moe_token_dispatcher_type", "parallel.expert_dispatch");
  const auto backend = settings.word("moe_flex_dispatcher_backend", "parallel.expert_dispatch");
  const bool deepep = settings.is_on("moe_enable_deepep", "parallel.expert_dispatch") ||
                      settings.is_on("use_turbo_deepep", "parallel.expert_dispatch");
  if (backend && *backend == "hybridep") {
    plan.set("parallel.expert_dispatch", "hybridep");
  } else if (deepep || (backend && *backend == "deepep" && dispatcher && *dispatcher == "flex")) {
    plan.set("parallel.expert_dispatch", "deepep");
  } else if (dispatcher && *dispatcher == "allgather") {
    settings.ignore("moe_token_dispatcher_type", "tokens are priced as an all-to-all sends them");
  }
  if (settings.is_on("overlap_moe_expert_parallel_comm", "schedule.name")) {
    if (plan.chunks > 1) {
      plan.schedule = "ep-1f1b";
    } else {
      plan.set("parallel.expert_overlap", "true");
    }
  }
}

// Without overlap, Megatron-LM's interleaved schedule posts the messages between two passes together and
// waits for them (batch_p2p_comm).
void take_messages(Importing& importing) {
  constexpr std::string_view kFlag = "no_overlap_p2p_communication";
  if (importing.plan.chunks <= 1) {
    importing.settings.ignore(kFlag, "Megatron-LM reads it only with several stages on each rank");
  } else if (importing.settings.is_on(kFlag, "schedule.blocking")) {
    importing.plan.set("schedule.blocking", "batched");
  }
}

void take_sharding(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const bool distributed = settings.is_on("use_distributed_optimizer", "parallel.distributed_optimizer");
  const bool fsdp = settings.is_on("use_megatron_fsdp", "schedule.sharding") ||
                    settings.is_on("use_custom_fsdp", "schedule.sharding");
  const bool torch_fsdp = settings.is_on("use_torch_fsdp2", "schedule.sharding");
  const auto strategy = settings.word("data_parallel_sharding_strategy", "schedule.sharding");
  // The optimizer dist_muon stores the state of each matrix on one device, so it does not need the
  // distributed optimizer.
  const std::string* optimizer = settings.find("optimizer");
  const bool shards_matrices = optimizer != nullptr && *optimizer == "dist_muon";
  std::int64_t sharding = distributed || shards_matrices ? 1 : 0;
  if (fsdp && strategy == "optim") sharding = 1;
  if (fsdp && strategy == "optim_grads") sharding = 2;
  if (torch_fsdp || (fsdp && strategy == "optim_grads_params")) sharding = 3;
  if (strategy && !fsdp)
    settings.ignore("data_parallel_sharding_strategy", "Megatron-LM reads it only with --use-megatron-fsdp");
  plan.set("parallel.distributed_optimizer", sharding > 0 ? "true" : "false");
  if (sharding > 1) plan.set("schedule.sharding", sharding);
}

/// Reads the flags of Megatron-DeepSpeed, whose optimizer is divided by ZeRO. The degrees and the model are
/// among the arguments, and only ZeRO's stage may stand in DeepSpeed's JSON file.
void take_zero_stage(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  if (plan.stages == 1) settings.ignore("no_pipeline_parallel", "there is one stage");
  if (!settings.is_on("deepspeed", "schedule.sharding")) return;
  const auto sharding = settings.number("zero_stage", "schedule.sharding", 0);
  if (!sharding) {
    settings.refuse("deepspeed",
                    "the file of --deepspeed_config may state ZeRO's stage and is not read beside the "
                    "arguments; add --zero-stage N to the command, where 0 means that no state is divided");
    return;
  }
  if (*sharding > 1 && plan.stages > 1) {
    settings.refuse("zero_stage", "DeepSpeed refuses it too: ZeRO-2 and ZeRO-3 do not go with a pipeline");
  }
  plan.set("parallel.distributed_optimizer", *sharding > 0 ? "true" : "false");
  if (*sharding > 1) plan.set("schedule.sharding", *sharding);
}

void take_parallelism(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  take_context(importing);
  take_expert_parallelism(importing);
  const bool sequence = settings.is_on("sequence_parallel", "parallel.sequence_parallel");
  plan.set("parallel.sequence_parallel", sequence || plan.tensor == 1 ? "true" : "false");
  // NeMo and MindSpeed have other names for it.
  bool overlaps = false;
  for (const std::string_view name : {"tp_comm_overlap", "ub_tp_comm_overlap", "use_ascend_coc"})
    overlaps = settings.is_on(name, "parallel.tensor_overlap") || overlaps;
  plan.set("parallel.tensor_overlap", overlaps || plan.tensor == 1 ? "true" : "false");
  const bool reduces = settings.is_on("overlap_grad_reduce", "parallel.data_overlap");
  plan.set("parallel.data_overlap", reduces ? "true" : "false");
  const bool last = settings.is_on("use_tp_pp_dp_mapping", "parallel.order");
  plan.set("parallel.order", last ? "tp-cp-ep-pp-dp" : "tp-cp-ep-dp-pp");
  take_sharding(importing);
  take_zero_stage(importing);
}

// --- training ---------------------------------------------------------------------------------------------

void take_recomputation(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  // Older releases have two other flags for full recomputation: --checkpoint-activations and
  // --activations-checkpoint-method. NeMo kept the second name, and has activations_checkpoint_granularity.
  const bool old_full = settings.is_on("checkpoint_activations", "training.recompute") ||
                        settings.is_on("activations_checkpoint_method", "training.recompute");
  settings.rename("activations_checkpoint_", "recompute_");
  settings.rename("checkpoint_num_layers", "recompute_num_layers");
  const auto granularity = settings.word("recompute_granularity", "training.recompute");
  const auto method = settings.word("recompute_method", "training.recompute");
  const auto count = settings.number("recompute_num_layers", "training.recompute", 0);
  const auto modules = settings.word("recompute_modules", "training.recompute");
  const bool old_selective = settings.is_on("recompute_activations", "training.recompute");
  const std::string kind = granularity.value_or(old_full ? "full" : old_selective ? "selective" : "");
  if (kind == "full") {
    const std::int64_t layers = count.value_or(1);
    const bool has_none = layers == 0 && method == "block";  // the layers of each stage that are recomputed
    plan.recomputes_fully = !has_none;
    if (has_none) {
      plan.set("training.recompute", "none");
    } else if (layers == 0) {
      settings.refuse("recompute_num_layers", "expected a whole number from 1 on, got 0");
    } else if (method.value_or("uniform") == "block") {
      plan.set("training.recompute", fmt::format("{{method: block, num_layers: {}}}", layers));
    } else {
      plan.set("training.recompute", layers == 1 ? "full" : fmt::format("{{uniform: {}}}", layers));
    }
  } else if (kind == "selective") {
    std::string list = modules.value_or("core_attn");
    std::ranges::replace(list, ' ', ',');
    plan.set("training.recompute", list == "core_attn" ? "selective" : fmt::format("[{}]", list));
  } else if (!kind.empty()) {
    settings.refuse("recompute_granularity", "expected full or selective");
  } else {
    for (const std::string_view name : {"recompute_method", "recompute_num_layers", "recompute_modules"})
      settings.ignore(name, "Megatron-LM reads it only with --recompute-granularity");
  }
}

void take_precision(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const bool fp8 =
      settings.is_on("fp8_format", "training.precision") || settings.is_on("fp8", "training.precision");
  const bool fp4 =
      settings.is_on("fp4_format", "training.precision") || settings.is_on("fp4", "training.precision");
  const bool bf16 =
      settings.is_on("bf16", "training.precision") || settings.is_on("mixed_precision", "training.precision");
  const bool fp16 = settings.is_on("fp16", "training.precision: bf16, whose sizes and rates are the same");
  plan.set("training.precision", fp4 ? "fp4" : fp8 ? "fp8" : "bf16");
  if (!bf16 && !fp16 && !fp8 && !fp4) {
    plan.notes.emplace_back(
        "no precision is stated: bf16 is priced, although Megatron-LM's own default is 32 bits");
  }
  // Megatron Bridge has this flag. It means the opposite of Megatron-LM's grad_reduce_in_bf16.
  const std::string* in_fp32 = settings.find("grad_reduce_in_fp32");
  const bool in_bf16 = in_fp32 != nullptr && is_off_value(*in_fp32);
  if (in_bf16) settings.take("grad_reduce_in_fp32", "training.gradient_bytes");
  if (settings.is_on("grad_reduce_in_bf16", "training.gradient_bytes") || in_bf16)
    plan.set("training.gradient_bytes", "2");
  const std::string optimizer = settings.word("optimizer", "training.optimizer").value_or("adam");
  const std::string momentum = settings.word("sgd_momentum", "training.optimizer").value_or("0.9");
  if (optimizer != "sgd") settings.ignore("sgd_momentum", "Megatron-LM reads it only with --optimizer sgd");
  const auto rate = finite_number(momentum);
  if (optimizer == "sgd") {
    plan.set("training.optimizer", rate && *rate == 0 ? "sgd" : "momentum");
  } else {
    plan.set("training.optimizer", "adam");
    if (optimizer != "adam") settings.ignore("optimizer", "its state is priced as that of adam");
  }
}

/// Ignores keys that have an effect only together with a switch that is off, and names the reason why an
/// attention backend is not priced.
void ignore_what_is_off(Settings& settings) {
  const std::string* offloading = settings.find("cpu_offloading");
  if (offloading == nullptr || is_off_value(*offloading)) {
    constexpr auto kOff = std::to_array<SettledRow>(
        {{"cpu_offloading_*", Fate::ignored, "Megatron-LM reads it only with --cpu-offloading"}});
    settings.settle(kOff);
  }
  const std::string* backend = settings.find("attention_backend");
  if (backend != nullptr && (*backend == "unfused" || *backend == "local")) {
    settings.ignore("attention_backend",
                    "the prices are those of fused attention, so time and memory may be predicted too small");
  }
}

}  // namespace

void import_megatron(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  take_launcher(importing);
  const auto tensor = settings.number("tensor_model_parallel_size", "parallel.tensor");
  // The first releases have --model-parallel-size and --batch-size, which is the batch of one device.
  plan.tensor = tensor ? *tensor : settings.number("model_parallel_size", "parallel.tensor").value_or(1);
  plan.stages = settings.number("pipeline_model_parallel_size", "schedule.stages").value_or(1);
  plan.context = settings.number("context_parallel_size", "parallel.context").value_or(1);
  settings.rename("num_moe_experts", "num_experts");  // the name of TransformerConfig
  plan.micro_batch_size = settings.number("micro_batch_size", "training.micro_batch_size");
  if (!plan.micro_batch_size)
    plan.micro_batch_size = settings.number("batch_size", "training.micro_batch_size");
  plan.global_batch_size = settings.number("global_batch_size", "training.global_batch_size");
  copy_rows(importing, kCopied);
  take_model(importing);
  take_cut(importing);
  take_parallelism(importing);
  take_messages(importing);
  take_recomputation(importing);
  take_precision(importing);
  ignore_what_is_off(settings);
  plan.set("training.framework", "megatron-te");
  if (importing.has_model) {
    for (const std::string_view name : {"multi_latent_attention", "multi_head_latent_attention"})
      settings.ignore(name, "--model states the model");
    for (const std::string_view name : {"q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim",
                                        "v_head_dim", "hybrid_override_pattern", "spec"})
      settings.ignore(name, "--model states the model");
  }
  settings.settle(kSettled);
}

}  // namespace penstock
