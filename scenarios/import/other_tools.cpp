// Reads configurations of DeepSpeed, nanotron, SimuMax and calculon. It also contains the functions that
// all importers share.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/import/importers.hpp"
#include "scenarios/import/plan.hpp"
#include "scenarios/import/settings.hpp"
#include "text/enum_words.hpp"
#include "text/numbers.hpp"

namespace penstock {

// --- shared by all importers ------------------------------------------------------------------------------

void copy_rows(Importing& importing, std::span<const CopiedRow> rows) {
  for (const CopiedRow& row : rows) {
    // If --model states the sizes of the model, the sizes in the configuration are ignored. Only the sequence
    // length and the number of multi-token-prediction layers are still read.
    const bool is_size = row.target.starts_with("model.");
    const bool is_sequence = row.target == "model.sequence" || row.target == "model.multi_token";
    if (importing.has_model && is_size && !is_sequence) {
      importing.settings.ignore(row.name, "--model states the model");
      continue;
    }
    if (row.target == "model.layers" && importing.stated_layers) {
      importing.settings.ignore(row.name, "the user states the number of layers");
      continue;
    }
    const std::string target =
        is_size ? fmt::format("model.transformer.{}", row.target.substr(6)) : std::string(row.target);
    switch (row.kind) {
      case CopiedRow::Kind::number:
        if (const auto value = importing.settings.number(row.name, target, row.least)) {
          importing.plan.set(std::string(row.target), *value);
        }
        break;
      case CopiedRow::Kind::word:
        if (const auto value = importing.settings.word(row.name, target))
          importing.plan.set(std::string(row.target), *value);
        break;
      case CopiedRow::Kind::on:
        if (importing.settings.is_on(row.name, target)) importing.plan.set(std::string(row.target), "true");
        break;
    }
  }
}

void take_shared_experts(Importing& importing) {
  constexpr std::string_view kWidth = "moe_shared_expert_intermediate_size";
  Plan& plan = importing.plan;
  const auto shared = importing.settings.number(kWidth, "model.transformer.shared_experts");
  if (!shared) return;
  const std::int64_t one =
      plan.number("model.expert_feed_forward").value_or(plan.number("model.feed_forward").value_or(*shared));
  if (*shared % one == 0) {
    plan.set("model.shared_experts", *shared / one);
  } else {
    importing.settings.refuse(kWidth, fmt::format("expected a multiple of the width of an expert, {}", one));
  }
}

void copy_latent_sizes(Importing& importing) {
  constexpr auto kSizes = std::to_array<CopiedRow>({{"kv_lora_rank", "model.kv_lora_rank"},
                                                    {"q_lora_rank", "model.q_lora_rank"},
                                                    {"qk_head_dim", "model.qk_nope_head_dim"},
                                                    {"qk_pos_emb_head_dim", "model.qk_rope_head_dim"},
                                                    {"v_head_dim", "model.v_head_dim"}});
  copy_rows(importing, kSizes);
  for (const std::string_view key : {"model.head_dim", "model.kv_heads", "model.query_key_norm"})
    importing.plan.remove(key);
}

std::vector<std::int64_t> even_layers(std::int64_t layers, std::int64_t stages) {
  if (layers % stages != 0) return {};
  return std::vector<std::int64_t>(static_cast<std::size_t>(stages), layers / stages);
}

std::string list_yaml(const std::vector<std::int64_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

void refuse_32_bits(Settings& settings, std::string_view name) {
  const std::string* value = settings.find(name);
  if (value == nullptr) return;
  const std::string plain = plain_name(*value);
  if (plain == "float32" || plain == "fp32" || plain == "float" || plain == "torch.float32") {
    settings.refuse(name, "matrix products in 32 bits have no price here; --ignore takes them as bf16");
  } else {
    settings.take(name, "training.precision");
  }
}

namespace {

/// Returns the first key of `names` whose value is a number from 1 on, and marks it as taken.
std::optional<std::int64_t> first_number(Settings& settings, std::span<const std::string_view> names,
                                         std::string_view target) {
  for (const std::string_view name : names) {
    const std::string* value = settings.find(name);
    // "gpu:8" and "h100:8" state a kind of device before the number.
    const auto number =
        value == nullptr
            ? std::nullopt
            : number_of_text<std::int64_t>(std::string_view(*value).substr(value->rfind(':') + 1));
    if (!number || *number < 1) continue;
    settings.take(name, target);
    return number;
  }
  return std::nullopt;
}

/// Returns the devices of a node that follow from the tasks of a batch system. One task on a node says
/// nothing about its devices, because it may start the processes of all of them.
std::optional<std::int64_t> devices_of_tasks(Settings& settings) {
  constexpr auto kOfTask = std::to_array<std::string_view>({"#SBATCH --gpus-per-task", "gpus_per_task"});
  constexpr auto kTasks = std::to_array<std::string_view>({"#SBATCH --ntasks-per-node", "ntasks_per_node"});
  const auto of_task = first_number(settings, kOfTask, "cluster.devices_per_node");
  const auto tasks = first_number(settings, kTasks, "cluster.devices_per_node");
  if (of_task) return *of_task * tasks.value_or(1);
  if (tasks && *tasks > 1) return tasks;
  for (const std::string_view name : kTasks)
    settings.ignore(name, "one task starts the processes of all devices of its node");
  return std::nullopt;
}

}  // namespace

void take_launcher(Importing& importing) {
  Settings& settings = importing.settings;
  constexpr auto kOfNode = std::to_array<std::string_view>(
      {"nproc_per_node", "num_gpus", "#SBATCH --gpus-per-node", "gpus_per_node", "#SBATCH --gres"});
  constexpr auto kNodes =
      std::to_array<std::string_view>({"nnodes", "num_nodes", "#SBATCH --nodes", "#SBATCH -N"});
  constexpr auto kAll =
      std::to_array<std::string_view>({"world_size", "num_gpus_total", "#SBATCH --gpus", "#SBATCH -G"});
  auto of_node = first_number(settings, kOfNode, "cluster.devices_per_node");
  if (!of_node) of_node = devices_of_tasks(settings);
  const auto nodes = first_number(settings, kNodes, "cluster.nodes");
  const auto all = first_number(settings, kAll, "cluster.nodes");
  constexpr auto kBatchSystem =
      std::to_array<SettledRow>({{"#SBATCH*", Fate::ignored, "concerns the batch system"}});
  settings.settle(kBatchSystem);
  if (importing.plan.devices) return;
  if (all && nodes && !of_node && *all % *nodes == 0) of_node = *all / *nodes;
  if (of_node) importing.plan.devices_per_node = of_node;
  if (all) {
    importing.plan.devices = all;
  } else if (of_node && nodes) {
    importing.plan.devices = *of_node * *nodes;
  } else if (of_node && !settings.has("nnodes")) {
    importing.plan.devices = of_node;
  } else if (nodes && *nodes > 1) {
    constexpr std::int64_t kUsual = 8;
    importing.plan.devices = *nodes * kUsual;
    importing.plan.notes.push_back(
        fmt::format("the devices of a node are not stated: {} are taken; give --devices N", kUsual));
  }
}

namespace {

using RowKind = CopiedRow::Kind;

/// Cuts the layers evenly among the stages. If the number of layers is not divisible by the number of stages,
/// each of the first stages has one layer more.
void cut_nearly_evenly(Plan& plan, std::int64_t layers) {
  const std::int64_t stages = plan.stages * plan.chunks;
  if (stages == 1) return;
  for (std::int64_t stage = 0; stage < stages; ++stage)
    plan.layers.push_back(layers / stages + (stage < layers % stages ? 1 : 0));
  plan.layer_split = layers % stages == 0 ? "even" : list_yaml(plan.layers);
}

// --- DeepSpeed --------------------------------------------------------------------------------------------

constexpr auto kDeepSpeedSettled = std::to_array<SettledRow>({
    {"zero_optimization.offload_optimizer.device zero_optimization.offload_param.device "
     "zero_optimization.cpu_offload zero_optimization.cpu_offload_params",
     Fate::refused, "moves memory to the host, which has no price here"},
    {"zero_optimization.zero_quantized_gradients zero_optimization.zero_quantized_weights "
     "zero_optimization.zero_quantized_nontrainable_weights",
     Fate::refused, "sends compressed values, which have no price here"},
    {"zero_optimization.*", Fate::ignored, "does not change how often data is exchanged"},
    {"optimizer.* scheduler.* gradient_clipping fp16.* bf16.* bfloat16.* fp8.* amp.* prescale_gradients "
     "gradient_predivide_factor zero_allow_untested_optimizer zero_force_ds_cpu_optimizer seed",
     Fate::ignored, "concerns what is learned, not how long it takes"},
    {"steps_per_print wall_clock_breakdown dump_state tensorboard.* wandb.* csv_monitor.* comet.* "
     "flops_profiler.* "
     "comms_logger.* monitor_config.* checkpoint.* autotuning.* data_types.* elasticity.* nebula.* "
     "memory_breakdown "
     "load_universal_checkpoint graph_harvesting compile.* aio.* hybrid_engine.* timers.* data_efficiency.*",
     Fate::ignored, "concerns logs, checkpoints and measurements"},
    {"activation_checkpointing.partition_activations activation_checkpointing.cpu_checkpointing",
     Fate::refused, "divides or moves checkpoints, which has no price here"},
    {"activation_checkpointing.*", Fate::ignored,
     "says how checkpoints are stored; the model says which layers have them"},
    {"pipeline.seed_layers pipeline.activation_checkpoint_interval pipeline.*", Fate::ignored,
     "does not change the schedule"},
    {"sparse_attention.* compression_training.* progressive_layer_drop.* curriculum_learning.*",
     Fate::refused, "changes the computation of a layer, which has no price here"},
    {"communication_data_type data_types.grad_accum_dtype", Fate::ignored,
     "gradients are exchanged in 4 bytes"},
    {"sparse_gradients disable_allgather train_iters", Fate::ignored, "has no price here"},
});

void take_deepspeed_batch(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const auto size = [&](std::string_view name, std::string_view target) -> std::optional<std::int64_t> {
    const std::string* value = settings.find(name);
    if (value == nullptr) return std::nullopt;
    if (*value == "auto") {
      settings.ignore(name, "auto: the trainer chooses it; give --set or edit the file");
      return std::nullopt;
    }
    return settings.number(name, target);
  };
  plan.global_batch_size = size("train_batch_size", "training.global_batch_size");
  plan.micro_batch_size = size("train_micro_batch_size_per_gpu", "training.micro_batch_size");
  plan.microbatches = size("gradient_accumulation_steps", "schedule.microbatches");
  // If only train_batch_size is stated, DeepSpeed does not accumulate gradients, so a step has one
  // microbatch.
  if (plan.global_batch_size && !plan.micro_batch_size && !plan.microbatches) plan.microbatches = 1;
}

// --- nanotron ---------------------------------------------------------------------------------------------

constexpr auto kNanotronCopied = std::to_array<CopiedRow>({
    {"model.model_config.num_hidden_layers", "model.layers"},
    {"model.model_config.hidden_size", "model.hidden"},
    {"model.model_config.num_attention_heads", "model.heads"},
    {"model.model_config.num_key_value_heads", "model.kv_heads"},
    {"model.model_config.intermediate_size", "model.feed_forward"},
    {"model.model_config.vocab_size", "model.vocabulary"},
    {"model.model_config.head_dim", "model.head_dim"},
    {"model.model_config.num_experts", "model.experts"},
    {"model.model_config.moe_num_experts", "model.experts"},
    {"model.model_config.moe_config.num_experts", "model.experts"},
    {"model.model_config.num_experts_per_tok", "model.experts_per_token"},
    {"model.model_config.num_experts_per_token", "model.experts_per_token"},
    {"model.model_config.moe_config.top_k", "model.experts_per_token"},
    {"model.model_config.moe_intermediate_size", "model.expert_feed_forward"},
    {"model.model_config.moe_config.moe_intermediate_size", "model.expert_feed_forward"},
    {"tokens.sequence_length", "model.sequence"},
    {"model.model_config.sliding_window_size", "model.window"},
    {"parallelism.tp_linear_async_communication", "parallel.tensor_overlap", RowKind::on},
});

constexpr auto kNanotronSettled = std::to_array<SettledRow>({
    {"checkpoints.* general.* logging.* lighteval.* profiler.* s3_upload.* metrics_logging.* data_stages "
     "data_stages.* "
     "kill_switch_path experiment_logger.* slurm.* metrics.*",
     Fate::ignored, "concerns data, logs and checkpoints"},
    {"tokenizer.* data.*", Fate::ignored, "concerns data and the tokenizer"},
    {"optimizer.optimizer_factory.* optimizer.learning_rate_scheduler.* optimizer.weight_decay "
     "optimizer.clip_grad "
     "optimizer.weight_decay_exclude_named_params optimizer.finetuning* model.init_method.* "
     "tokens.train_steps "
     "tokens.limit_* tokens.val_check_interval",
     Fate::ignored, "concerns what is learned, not how long it takes"},
    {"model.model_config.* model.ddp_bucket_cap_mb model.make_vocab_size_divisible_by model.dtype "
     "parallelism.tp_recompute_allgather parallelism.moe_layer_recompute "
     "parallelism.expert_tensor_parallel_size",
     Fate::ignored, "has no price here"},
});

/// Returns the number of layers of each stage, as nanotron's build_model() computes it. Stage s of K gets
/// layers until all layers so far have more than (s + 1) / K of all weights. Only the matrices of layers and
/// the vocabulary matrix of the output head count. The embedding does not count.
std::vector<std::int64_t> nanotron_layers(const Importing& importing) {
  const Plan& plan = importing.plan;
  const auto layers = importing.layers();
  const auto hidden = plan.number("model.hidden");
  if (!layers || !hidden || plan.stages == 1) return {};
  const std::int64_t feed_forward = plan.number("model.feed_forward").value_or(4 * *hidden);
  const double of_layer = static_cast<double>(*hidden) * static_cast<double>(4 * *hidden + 3 * feed_forward);
  const double of_head =
      static_cast<double>(*hidden) * static_cast<double>(plan.number("model.vocabulary").value_or(0));
  const double all = static_cast<double>(*layers) * of_layer + of_head;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(plan.stages), 0);
  std::size_t stage = 0;
  for (std::int64_t layer = 1; layer <= *layers; ++layer) {
    ++counts[stage];
    const double share = all * static_cast<double>(stage + 1) / static_cast<double>(plan.stages);
    if (static_cast<double>(layer) * of_layer > share && stage + 1 < counts.size()) ++stage;
  }
  return counts;
}

/// Reads the shared expert of a layer, and refuses experts in a part of the layers only.
void take_nanotron_experts(Importing& importing) {
  constexpr std::string_view kShared = "model.model_config.moe_config.enable_shared_expert";
  constexpr std::string_view kWidth = "model.model_config.moe_config.shared_expert_intermediate_size";
  constexpr std::string_view kLayers = "model.model_config.moe_config.layers";
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  if (importing.has_model || plan.find("model.experts") == nullptr) return;
  if (const std::string* layers = settings.find(kLayers); layers != nullptr && *layers != "-1")
    settings.refuse(kLayers, "only a part of the layers has experts; give --model config.json");
  if (!settings.is_on(kShared, "model.transformer.shared_experts")) {
    settings.ignore(kWidth, "enable_shared_expert is off");
    return;
  }
  const auto expert = plan.number("model.expert_feed_forward");
  const std::int64_t of_expert = expert.value_or(plan.number("model.feed_forward").value_or(1));
  const auto width = settings.number(kWidth, "model.transformer.shared_experts");
  if (!width && expert) {
    settings.refuse(kShared,
                    "the width of the shared expert is not stated: write "
                    "shared_expert_intermediate_size");
  } else if (const std::int64_t of_shared = width.value_or(of_expert); of_shared % of_expert == 0) {
    plan.set("model.shared_experts", of_shared / of_expert);
  } else {
    settings.refuse(kWidth, fmt::format("expected a multiple of the width of an expert, {}", of_expert));
  }
}

// --- SimuMax ----------------------------------------------------------------------------------------------

constexpr auto kSimumaxCopied = std::to_array<CopiedRow>({
    {"layer_num", "model.layers"},
    {"hidden_size", "model.hidden"},
    {"head_num", "model.heads"},
    {"kv_head_num", "model.kv_heads"},
    {"head_size", "model.head_dim"},
    {"intermediate_size", "model.feed_forward"},
    {"vocab_size", "model.vocabulary"},
    {"topk", "model.experts_per_token"},
    {"moe_ffn_hidden_size", "model.expert_feed_forward"},
    {"dense_layers", "model.dense_layers", RowKind::number, 0},
    {"seq_len", "model.sequence"},
});

constexpr auto kSimumaxSettled = std::to_array<SettledRow>({
    {"q_lora_rank kv_lora_rank qk_head_dim qk_pos_emb_head_dim v_head_dim", Fate::ignored,
     "SimuMax reads it only with attention_type: mla"},
    {"sliding_window* window* attention_type", Fate::refused,
     "describes a part of the model that model.transformer lacks; give --model config.json"},
    {"megatron_recompute megatron_recompute_modules recompute_* attn_recompute mla_rms_recompute "
     "mlp_recompute "
     "mlp_rms_recompute moe_act_recompute",
     Fate::refused, "SimuMax recomputes other parts of a layer than Megatron-LM; state training.recompute"},
    {"model_name model_type dtype enable_dropout use_fused_* use_math_sdp use_flash_sdp use_fp32_accum_grad "
     "no_sync "
     "skip_ckpt_micro_batch_num mem_factor use_accm_weight fp8 group_linear_mode attention_sparse_ratio "
     "cross_dp_net pp_net tp_net dp_net ep_net etp_net order_of_paralielism optimizer_style cache_* "
     "dispatch_probs "
     "make_vocab_size_divisible_by padded_vocab_size group_gemm_col_ratio offload_groupgemm_col_inputs "
     "group_size moe_pad* "
     "capacity moe_capacity_factor test_mode net cp_size cp_*",
     Fate::ignored, "has no price here"},
});

// --- calculon ---------------------------------------------------------------------------------------------

constexpr auto kCalculonCopied = std::to_array<CopiedRow>({
    {"num_blocks", "model.layers"},
    {"hidden", "model.hidden"},
    {"attn_heads", "model.heads"},
    {"attn_size", "model.head_dim"},
    {"feedforward", "model.feed_forward"},
    {"seq_size", "model.sequence"},
});

constexpr auto kCalculonSettled = std::to_array<SettledRow>({
    {"weight_offload activations_offload optimizer_offload", Fate::refused,
     "moves memory to the host, which has no price here"},
    {"tensor_par_net pipeline_par_net data_par_net", Fate::ignored,
     "the devices of a node use NVLink, others the network"},
    {"name datatype fused_activation seq_par_ag_redo", Fate::ignored, "has no price here"},
    {"matrix.* vector.* mem1.* mem2.* processing_mode networks", Fate::ignored,
     "describes a machine; give --device NAME, or keys of cluster in the scenario"},
});

}  // namespace

namespace {

void take_deepspeed_sharding(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const std::int64_t sharding =
      settings.number("zero_optimization.stage", "schedule.sharding", 0).value_or(0);
  if (sharding > 3) {
    settings.refuse("zero_optimization.stage", "expected 0 to 3");
  } else if (sharding > 1 && plan.stages > 1) {
    settings.refuse("zero_optimization.stage",
                    "DeepSpeed refuses it too: ZeRO-2 and ZeRO-3 do not go with a pipeline");
  }
  plan.set("schedule.sharding", sharding);
  plan.set("parallel.distributed_optimizer", sharding > 0 ? "true" : "false");
  const std::string* overlap = settings.find("zero_optimization.overlap_comm");
  if (overlap == nullptr) return;
  plan.set("parallel.data_overlap", is_off_value(*overlap) ? "false" : "true");
  settings.take("zero_optimization.overlap_comm", "parallel.data_overlap");
}

void take_deepspeed_pipeline(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const auto interval = settings.number("pipeline.activation_checkpoint_interval", "training.recompute", 0);
  if (interval && *interval > 0) {
    plan.recomputes_fully = true;
    plan.set("training.recompute", *interval == 1 ? "full" : fmt::format("{{uniform: {}}}", *interval));
  }
  const auto rule = settings.word("pipeline.partition", "schedule.layer_split");
  if (rule == "uniform") {
    plan.layer_split = "even";
    if (const auto layers = importing.layers()) cut_nearly_evenly(plan, *layers);
  } else if (rule && *rule != "best") {
    settings.ignore("pipeline.partition", "layers are cut as the scenario's schedule.layer_split says");
  }
}

/// Reads the type in which gradients are exchanged. Without communication_data_type, it is the type in which
/// they are summed up.
void take_deepspeed_gradients(Importing& importing) {
  Settings& settings = importing.settings;
  for (const std::string_view name : {"communication_data_type", "data_types.grad_accum_dtype"}) {
    const std::string* type = settings.find(name);
    if (type == nullptr) continue;
    const std::string plain = plain_name(*type);
    const bool is_short = plain == "fp16" || plain == "bf16" || plain == "bfp16";
    if (!is_short && plain != "fp32") continue;
    settings.take(name, "training.gradient_bytes");
    importing.plan.set("training.gradient_bytes", is_short ? "2" : "4");
    return;
  }
}

/// Refuses shards that stay inside groups of devices. The sizes 1 and -1 switch such groups off.
void refuse_deepspeed_groups(Settings& settings) {
  for (const std::string_view name :
       {"zero_optimization.zero_hpz_partition_size", "zero_optimization.mics_shard_size"}) {
    const std::string* size = settings.find(name);
    if (size == nullptr) continue;
    if (number_of_text<std::int64_t>(*size).value_or(2) > 1) {
      settings.refuse(name, "divides weights among a part of the devices, which has no price here");
    } else {
      settings.ignore(name, "switched off");
    }
  }
}

/// Reads the optimizer, whose state takes memory. Without a momentum, SGD has no state.
void take_deepspeed_optimizer(Importing& importing) {
  Settings& settings = importing.settings;
  const auto type = settings.word("optimizer.type", "training.optimizer");
  if (!type) return;
  const std::string plain = plain_name(*type);
  if (plain == "sgd") {
    const std::string momentum =
        settings.word("optimizer.params.momentum", "training.optimizer").value_or("0");
    const auto rate = finite_number(momentum);
    importing.plan.set("training.optimizer", rate && *rate == 0 ? "sgd" : "momentum");
    return;
  }
  importing.plan.set("training.optimizer", "adam");
  if (plain.find("adam") == std::string::npos)
    settings.ignore("optimizer.type", "its state is priced as that of adam");
}

}  // namespace

void import_deepspeed(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  take_launcher(importing);
  plan.stages = settings.number("pipeline.stages", "schedule.stages").value_or(1);
  for (const std::string_view name : {"tensor_parallel.autotp_size", "tensor_parallel.tp_size"}) {
    if (const auto tensor = settings.number(name, "parallel.tensor", 0); tensor && *tensor > 0)
      plan.tensor = *tensor;
  }
  // DeepSpeed-Ulysses divides a sequence, and exchanges heads before and after attention.
  if (const auto context = settings.number("sequence_parallel_size", "parallel.context");
      context && *context > 1) {
    plan.context = *context;
    plan.set("parallel.context_exchange", "all-to-all");
  }
  take_deepspeed_batch(importing);
  take_deepspeed_optimizer(importing);
  take_deepspeed_sharding(importing);
  refuse_deepspeed_groups(settings);
  take_deepspeed_pipeline(importing);
  const bool bf16 = settings.is_on("bf16.enabled", "training.precision") ||
                    settings.is_on("bfloat16.enabled", "training.precision");
  const bool fp16 =
      settings.is_on("fp16.enabled", "training.precision: bf16, whose sizes and rates are the same") ||
      settings.is_on("amp.enabled", "training.precision: bf16, whose sizes and rates are the same");
  const bool fp8 = settings.is_on("fp8.enabled", "training.precision");
  plan.set("training.precision", fp8 ? "fp8" : "bf16");
  if (!bf16 && !fp16 && !fp8) {
    plan.notes.emplace_back(
        "no precision is stated: bf16 is priced, although DeepSpeed's own default is 32 bits");
  }
  take_deepspeed_gradients(importing);
  plan.schedule = "1f1b";
  settings.settle(kDeepSpeedSettled);
}

void import_nanotron(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  plan.tensor = settings.number("parallelism.tp", "parallel.tensor").value_or(1);
  plan.stages = settings.number("parallelism.pp", "schedule.stages").value_or(1);
  plan.copies = settings.number("parallelism.dp", "parallel.data");
  plan.context = settings.number("parallelism.context_parallel_size", "parallel.context").value_or(1);
  plan.micro_batch_size = settings.number("tokens.micro_batch_size", "training.micro_batch_size");
  plan.microbatches =
      settings.number("tokens.batch_accumulation_per_replica", "schedule.microbatches").value_or(1);
  plan.set("parallel.tensor_overlap", plan.tensor == 1 ? "true" : "false");
  copy_rows(importing, kNanotronCopied);
  take_nanotron_experts(importing);
  if (plan.find("model.hidden") != nullptr) {
    plan.set("model.gated", "true");
    plan.set("model.tied", settings.is_on("model.model_config.tie_word_embeddings", "model.transformer.tied")
                               ? "true"
                               : "false");
  }
  const std::string engine = settings.word("parallelism.pp_engine", "schedule.name").value_or("1f1b");
  plan.schedule = engine == "afab" ? "gpipe" : "1f1b";
  if (engine != "afab" && engine != "1f1b")
    settings.refuse("parallelism.pp_engine", "nanotron's engines are 1f1b and afab");
  const std::string mode =
      settings.word("parallelism.tp_mode", "parallel.sequence_parallel").value_or("ALL_REDUCE");
  plan.set("parallel.sequence_parallel", mode == "REDUCE_SCATTER" || plan.tensor == 1 ? "true" : "false");
  if (const auto expert = settings.number("parallelism.expert_parallel_size", "parallel.expert");
      expert && *expert > 1)
    plan.set("parallel.expert", *expert);
  const std::int64_t sharding =
      settings.number("optimizer.zero_stage", "parallel.distributed_optimizer", 0).value_or(0);
  plan.set("parallel.distributed_optimizer", sharding > 0 ? "true" : "false");
  if (sharding > 1) settings.refuse("optimizer.zero_stage", "nanotron has 0 and 1");
  if (const std::string* sum = settings.find("optimizer.accumulate_grad_in_fp32")) {
    plan.set("training.gradient_bytes", is_off_value(*sum) ? "2" : "4");
    settings.take("optimizer.accumulate_grad_in_fp32", "training.gradient_bytes");
  }
  if (settings.is_on("parallelism.recompute_layer", "training.recompute")) {
    plan.recomputes_fully = true;
    plan.set("training.recompute", "full");
  }
  plan.set("training.precision", "bf16");
  refuse_32_bits(settings, "model.dtype");
  plan.layers = nanotron_layers(importing);
  if (!plan.layers.empty()) plan.layer_split = list_yaml(plan.layers);
  settings.settle(kNanotronSettled);
}

namespace {

void take_simumax_model(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  copy_rows(importing, kSimumaxCopied);
  if (importing.has_model) return;
  const auto experts = settings.number("expert_num", "model.transformer.experts");
  if (experts && *experts > 1) {
    plan.set("model.experts", *experts);
    if (plan.find("model.experts_per_token") == nullptr) plan.set("model.experts_per_token", "2");
    take_shared_experts(importing);
  } else {
    for (const std::string_view key :
         {"model.experts_per_token", "model.expert_feed_forward", "model.dense_layers"})
      plan.remove(key);
  }
  if (plan.find("model.hidden") != nullptr)
    plan.set("model.gated", settings.is_on("use_swiglu", "model.transformer.gated") ? "true" : "false");
  const std::string* attention = settings.find("attention_type");
  if (attention == nullptr) return;
  const std::string kind = plain_name(*attention);
  if (kind == "mla" && settings.has("kv_lora_rank")) copy_latent_sizes(importing);
  if (kind == "mla" || kind == "mha" || kind == "gqa" || kind == "mqa") {
    settings.take("attention_type",
                  kind == "mla" ? "model.transformer.kv_lora_rank" : "model.transformer.kv_heads");
  }
}

void take_simumax_parallelism(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const std::string* sequence = settings.find("enable_sequence_parallel");
  const bool is_whole = sequence != nullptr && is_off_value(*sequence);
  settings.take("enable_sequence_parallel", "parallel.sequence_parallel");
  plan.set("parallel.sequence_parallel", is_whole && plan.tensor > 1 ? "false" : "true");
  plan.set("parallel.tensor_overlap", plan.tensor == 1 ? "true" : "false");
  if (const auto expert = settings.number("ep_size", "parallel.expert"); expert && *expert > 1)
    plan.set("parallel.expert", *expert);
  if (const auto of_expert = settings.number("etp_size", "parallel.expert"); of_expert && *of_expert > 1)
    settings.refuse("etp_size", "experts are whole on their devices here");
  settings.take("moe_dispatcher_policy", "parallel.expert_dispatch: alltoall");
  const std::int64_t sharding = settings.number("zero_state", "schedule.sharding", 0).value_or(0);
  plan.set("parallel.distributed_optimizer", sharding > 0 ? "true" : "false");
  if (sharding > 1) plan.set("schedule.sharding", sharding);
}

void cut_simumax_layers(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const auto first = settings.number("num_layers_in_first_pipeline_stage", "schedule.layer_split");
  const auto last = settings.number("num_layers_in_last_pipeline_stage", "schedule.layer_split");
  const auto layers = importing.layers();
  if (!layers) return;
  if (!first && !last) return cut_nearly_evenly(plan, *layers);
  const std::int64_t others = plan.stages - (first ? 1 : 0) - (last ? 1 : 0);
  const std::int64_t rest = *layers - first.value_or(0) - last.value_or(0);
  if (plan.chunks > 1 || (others == 0 ? rest != 0 : rest % others != 0)) {
    plan.refusals.push_back(fmt::format("{} layers do not divide into {} stages", rest, others));
    return;
  }
  plan.layers.assign(static_cast<std::size_t>(plan.stages), others == 0 ? 0 : rest / others);
  if (first) plan.layers.front() = *first;
  if (last) plan.layers.back() = *last;
  plan.layer_split = list_yaml(plan.layers);
}

void take_simumax_recomputation(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  if (!settings.is_on("enable_recompute", "training.recompute")) {
    constexpr auto kOff = std::to_array<SettledRow>(
        {{"attn_recompute mla_rms_recompute mlp_recompute mlp_rms_recompute recompute_* megatron_recompute*",
          Fate::ignored, "enable_recompute is off"}});
    settings.settle(kOff);
    return;
  }
  const std::string granularity = settings.word("recompute_granularity", "training.recompute").value_or("");
  const auto count = settings.number("recompute_layer_num", "training.recompute", 0);
  if (granularity == "full_block") {
    plan.recomputes_fully = true;
    plan.set("training.recompute", count && *count > 0 ? fmt::format("{{full: {}}}", *count) : "full");
  } else if (granularity == "sdp_only") {
    plan.set("training.recompute", "selective");
  } else if (!granularity.empty()) {
    settings.refuse("recompute_granularity",
                    "full_block and sdp_only have a price; state training.recompute");
  }
}

}  // namespace

void import_simumax(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  plan.tensor = settings.number("tp_size", "parallel.tensor").value_or(1);
  plan.stages = settings.number("pp_size", "schedule.stages").value_or(1);
  plan.chunks = settings.number("interleaving_size", "schedule.virtual_stages").value_or(1);
  if (plan.stages == 1) plan.chunks = 1;
  plan.schedule = plan.chunks > 1 ? "interleaved" : "1f1b";
  plan.context = settings.number("cp_size", "parallel.context").value_or(1);
  plan.devices = settings.number("world_size", "cluster.nodes");
  plan.micro_batch_size = settings.number("micro_batch_size", "training.micro_batch_size");
  plan.microbatches = settings.number("micro_batch_num", "schedule.microbatches");
  take_simumax_model(importing);
  take_simumax_parallelism(importing);
  cut_simumax_layers(importing);
  take_simumax_recomputation(importing);
  settings.take("dtype", "training.precision");
  plan.set("training.precision", settings.is_on("fp8", "training.precision") ? "fp8" : "bf16");
  settings.settle(kSimumaxSettled);
}

void import_calculon(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  plan.devices = settings.number("num_procs", "cluster.nodes");
  plan.tensor = settings.number("tensor_par", "parallel.tensor").value_or(1);
  plan.stages = settings.number("pipeline_par", "schedule.stages").value_or(1);
  plan.copies = settings.number("data_par", "parallel.data");
  plan.chunks = settings.number("pipeline_interleaving", "schedule.virtual_stages").value_or(1);
  if (plan.stages == 1) plan.chunks = 1;
  plan.schedule = plan.chunks > 1 ? "interleaved" : "1f1b";
  plan.micro_batch_size = settings.number("microbatch_size", "training.micro_batch_size");
  plan.global_batch_size = settings.number("batch_size", "training.global_batch_size");
  copy_rows(importing, kCalculonCopied);
  if (plan.find("model.hidden") != nullptr && plan.find("model.vocabulary") == nullptr) {
    constexpr std::int64_t kOfGpt = 51200;
    plan.set("model.vocabulary", kOfGpt);
    plan.notes.push_back(fmt::format(
        "calculon has no vocabulary: {} entries are taken, as in the models of its paper", kOfGpt));
  }
  const std::string recompute = settings.word("activation_recompute", "training.recompute").value_or("none");
  plan.recomputes_fully = recompute == "full";
  if (recompute == "attn_only" || recompute == "partial") {
    plan.set("training.recompute", "selective");
  } else if (recompute == "none" || recompute == "full") {
    plan.set("training.recompute", recompute);
  } else {
    settings.refuse("activation_recompute", "expected none, attn_only or full");
  }
  if (const auto kind = settings.word("attention_type", "model.transformer.kv_heads");
      kind && *kind == "multiquery")
    plan.set("model.kv_heads", "1");
  const std::string exchange =
      settings.word("tensor_par_comm_type", "parallel.sequence_parallel").value_or("ar");
  plan.set("parallel.sequence_parallel", exchange != "ar" || plan.tensor == 1 ? "true" : "false");
  const std::string overlap = settings.word("tensor_par_overlap", "parallel.tensor_overlap").value_or("none");
  plan.set("parallel.tensor_overlap", overlap != "none" || plan.tensor == 1 ? "true" : "false");
  plan.set("parallel.data_overlap",
           settings.is_on("data_par_overlap", "parallel.data_overlap") ? "true" : "false");
  plan.set("parallel.distributed_optimizer",
           settings.is_on("optimizer_sharding", "parallel.distributed_optimizer") ? "true" : "false");
  const std::string* training = settings.find("training");
  settings.take("training", "schedule.name");
  if (training != nullptr && is_off_value(*training))
    settings.refuse("training", "inference has no price here");
  if (const auto layers = importing.layers()) cut_nearly_evenly(plan, *layers);
  settings.settle(kCalculonSettled);
}

}  // namespace penstock
