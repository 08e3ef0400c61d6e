// Reads TOML files and flags of torchtitan. Both have the same names, such as
// parallelism.pipeline_parallel_degree.
//
// The layers are cut as in torchtitan/distributed/pipeline_parallel.py (v0.2.1). The embedding and the head
// count as layers (1 and 1 by default). The number of stages is rounded up. If the layers are not divisible
// by the number of stages, each of the first stages has one layer more:
//
//     stages = ceil((layers + 1 + 1) / layers_per_stage)     32 layers, 3 a stage: 12 stages
//     each stage (layers + 2) / stages, the first ones one more: 2 3 3 3 3 3 3 3 3 3 2 1
//
// In a pipeline, FSDP gathers weights once a step and reduces gradients in the last microbatch
// (parallel.gather: step). sim/choose/launchers.cpp writes the same flags from a scenario.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "scenarios/import/importers.hpp"
#include "scenarios/import/plan.hpp"
#include "scenarios/import/settings.hpp"
#include "text/enum_words.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

/// A schedule of PyTorch: its class name (`theirs`), Penstock's name for it (`ours`), and whether each rank
/// has only one stage. `ours` is empty for a base class, which takes its order from a file.
struct TorchSchedule {
  std::string_view theirs;
  std::string_view ours;
  bool has_one_stage = false;
};

constexpr auto kTorchSchedules =
    std::to_array<TorchSchedule>({{"1F1B", "1f1b", true},
                                  {"GPipe", "gpipe", true},
                                  {"Interleaved1F1B", "interleaved"},
                                  {"LoopedBFS", "looped-bfs"},
                                  {"InterleavedZeroBubble", "interleaved-zero-bubble"},
                                  {"ZBVZeroBubble", "zbv-zero-bubble"},
                                  {"DualPipeV", "dualpipe-v"},
                                  {"PipelineScheduleSingle", "", true},
                                  {"PipelineScheduleMulti", ""}});

constexpr auto kTorchSettled = std::to_array<SettledRow>({
    {"training.dtype optimizer.early_step_in_backward optimizer.state_dtype", Fate::ignored,
     "the weights and the optimizer's state have values of 4 bytes here, and the step comes at the end, so "
     "memory may "
     "be predicted too large"},
    {"job.* profiling.* metrics.* checkpoint.* comm.* experimental.* fault_tolerance.* memory_estimation.* "
     "validation.* "
     "debug.* config_file work_group workspace user_name exp_name modules.* sink_level file_sink_level "
     "stderr_sink_level",
     Fate::ignored, "concerns logs, checkpoints and how the job is started"},
    {"optimizer.* lr_scheduler.* training.max_norm training.steps training.warmup_steps training.seed "
     "training.gc_freq "
     "training.deterministic training.gc_debug",
     Fate::ignored, "concerns what is learned, not how long it takes"},
    {"training.dataset* training.data* model.tokenizer_path model.hf_assets_path training.num_workers",
     Fate::ignored, "concerns data and the tokenizer"},
    {"compile.* training.compile model.print_after_conversion model.norm_type model.attn_type quantize.* "
     "float8.* mx.* primus_turbo.* "
     "training.mixed_precision_* model.use_flex_attn parallelism.enable_compiled_autograd "
     "activation_checkpoint.early_stop activation_checkpoint.preserve_rng_state "
     "activation_checkpoint.determinism_check "
     "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns "
     "activation_checkpoint.memory_budget* activation_checkpoint.debug "
     "activation_checkpoint.visualize_memory_budget_pareto",
     Fate::ignored, "the prices hold for fused kernels in bf16 or fp8 as they are measured"},
    {"parallelism.disable_loss_parallel parallelism.pipeline_parallel_expert_parallel_overlap "
     "parallelism.context_parallel_load_balancer parallelism.disable_gradient_division "
     "parallelism.enable_loss_parallel "
     "parallelism.expert_parallel_comm_backend parallelism.expert_tensor_parallel_degree",
     Fate::ignored, "has no price here"},
    {"training.enable_cpu_offload", Fate::refused, "moves memory to the host, which has no price here"},
    {"parallelism.pipeline_parallel_split_points", Fate::refused,
     "newer releases have parallelism.module_fqns_per_model_part; write the modules of each stage"},
    {"lora.* peft.*", Fate::refused, "trains only a part of the weights, which has no price here"},
    {"node_rank nproc_per_node nnodes rdzv_* master_* local_ranks_filter role tee", Fate::ignored,
     "concerns how the processes are started"},
});

void take_torch_model(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  if (const auto sequence = settings.number("training.seq_len", "model.transformer.sequence"))
    plan.set("model.sequence", *sequence);
  const std::string* name = settings.find("model.name");
  const std::string* flavor = settings.find("model.flavor");
  const auto take_both = [&](std::string_view target) {
    settings.take("model.name", target);
    settings.take("model.flavor", target);
  };
  const auto ignore_both = [&](std::string_view reason) {
    settings.ignore("model.name", reason);
    settings.ignore("model.flavor", reason);
  };
  if (importing.has_model && importing.model_is_named) return take_both("model.huggingface");
  if (importing.has_model) return ignore_both("--model states the model");
  if (name == nullptr || flavor == nullptr)
    return ignore_both("states a model only together with model.name and model.flavor");
  if (set_known_model(plan, *name + "-" + *flavor)) return take_both("model.transformer");
  ignore_both("the sizes of this model are not known here; give --model config.json");
  plan.notes.push_back(fmt::format("the sizes of {} {} are not known here", *name, *flavor));
}

/// Returns the number of stages that torchtitan creates. Returns nothing if the stated number of layers in
/// each stage is refused. `ends` is the number of layers for which the embedding and the head count
/// together.
std::optional<std::int64_t> torch_stages(Importing& importing, const TorchSchedule& schedule,
                                         std::int64_t ends) {
  constexpr std::string_view kLayersPerStage = "parallelism.pipeline_parallel_layers_per_stage";
  Plan& plan = importing.plan;
  const auto of_stage = importing.settings.number(kLayersPerStage, "schedule.virtual_stages");
  if (!of_stage) return plan.stages * (schedule.has_one_stage ? 1 : 2);
  const auto layers = importing.layers();
  if (!layers) {
    importing.settings.refuse(kLayersPerStage,
                              "the stages follow from the layers of the model; give --model config.json");
    return std::nullopt;
  }
  const std::int64_t stages = (*layers + ends + *of_stage - 1) / *of_stage;
  std::string fault;
  if (stages % plan.stages != 0) {
    fault = fmt::format("{} stages are no multiple of the {} ranks", stages, plan.stages);
  } else if (schedule.has_one_stage && stages != plan.stages) {
    fault =
        fmt::format("{} takes one stage on a rank, and there are {}", schedule.theirs, stages / plan.stages);
  } else if (!schedule.has_one_stage && stages < 2 * plan.stages) {
    fault = fmt::format("{} takes at least two stages on a rank, and there is one", schedule.theirs);
  }
  if (fault.empty()) return stages;
  importing.settings.refuse(
      kLayersPerStage,
      fmt::format(
          "torchtitan refuses it too: {} layers, {} for the embedding and the head, and {} a stage make "
          "{} stages; {}",
          *layers, ends, *of_stage, stages, fault));
  return std::nullopt;
}

/// Cuts the layers into stages as torchtitan does. The embedding counts as `first` layers, and the head
/// counts as `last` layers.
void cut_torch_layers(Importing& importing, std::int64_t stages, std::int64_t first, std::int64_t last) {
  Plan& plan = importing.plan;
  const auto layers = importing.layers();
  if (stages == 1) return;
  if (!layers) {
    plan.layer_split = first == 1 && last == 1 ? "ends-one-less" : first == 0 && last == 0 ? "even" : "";
    return;
  }
  const std::int64_t all = *layers + first + last;
  if (all / stages < std::max({std::int64_t{1}, first, last})) {
    plan.refusals.push_back(
        fmt::format("torchtitan refuses it too: {} layers are too few for {} stages", *layers, stages));
    return;
  }
  for (std::int64_t stage = 0; stage < stages; ++stage)
    plan.layers.push_back(all / stages + (stage < all % stages ? 1 : 0));
  plan.layers.front() -= first;
  plan.layers.back() -= last;
  const bool divides = all % stages == 0;
  if (divides && first == 0 && last == 0) {
    plan.layer_split = "even";
  } else if (divides && first == 1 && last == 1) {
    plan.layer_split = "ends-one-less";
  } else {
    plan.layer_split = list_yaml(plan.layers);
  }
}

/// Returns the number of layers in each stage of a text such as "tok_embeddings,layers.0 layers.1,layers.2
/// layers.3,norm,output".
std::vector<std::int64_t> layers_of_modules(const std::string& text) {
  std::vector<std::int64_t> counts = {0};
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ' ') counts.push_back(0);
    if (text.compare(at, 7, "layers.") == 0) ++counts.back();
  }
  return counts;
}

void take_torch_pipeline(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const std::string name =
      settings.word("parallelism.pipeline_parallel_schedule", "schedule.name").value_or("1F1B");
  const std::int64_t first =
      settings.number("parallelism.pipeline_parallel_first_stage_less_layers", "schedule.layer_split", 0)
          .value_or(1);
  const std::int64_t last =
      settings.number("parallelism.pipeline_parallel_last_stage_less_layers", "schedule.layer_split", 0)
          .value_or(1);
  if (plan.stages == 1) return;
  const auto csv = settings.word("parallelism.pipeline_parallel_schedule_csv", "schedule.program");
  const auto found = std::ranges::find_if(
      kTorchSchedules, [&](const TorchSchedule& row) { return plain_name(row.theirs) == plain_name(name); });
  if (found == kTorchSchedules.end()) {
    settings.refuse("parallelism.pipeline_parallel_schedule",
                    "PyTorch's schedules are 1F1B, GPipe, Interleaved1F1B, LoopedBFS, InterleavedZeroBubble, "
                    "ZBVZeroBubble and DualPipeV");
    return;
  }
  plan.schedule = found->ours;
  if (csv) {
    plan.program = *csv;
  } else if (plan.schedule.empty()) {
    settings.refuse(
        "parallelism.pipeline_parallel_schedule",
        "this class has no order of its own; state parallelism.pipeline_parallel_schedule_csv, too");
    return;
  }
  if (const auto modules = settings.word("parallelism.module_fqns_per_model_part", "schedule.layer_split")) {
    plan.layers = layers_of_modules(*modules);
    plan.layer_split = list_yaml(plan.layers);
    const auto stages = static_cast<std::int64_t>(plan.layers.size());
    if (stages % plan.stages != 0) {
      settings.refuse(
          "parallelism.module_fqns_per_model_part",
          fmt::format("expected parts that are a multiple of the {} ranks, got {}", plan.stages, stages));
    }
    plan.chunks = std::max<std::int64_t>(1, stages / plan.stages);
    return;
  }
  const auto stages = torch_stages(importing, *found, first + last);
  if (!stages) return;
  plan.chunks = *stages / plan.stages;
  cut_torch_layers(importing, *stages, first, last);
}

/// Computes the microbatch size and the number of microbatches. The local batch is the number of samples that
/// one copy runs between two gradient exchanges. A pipeline divides the local batch into microbatches.
/// Without a pipeline, the local batch is one microbatch, and a step may add up the gradients of several
/// microbatches. Releases of 2024 have as many microbatches as stages, unless the settings state their
/// number.
void take_torch_batch(Importing& importing, bool is_of_2024) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  auto local = settings.number("training.local_batch_size", "training.micro_batch_size");
  if (!local) local = settings.number("training.batch_size", "training.micro_batch_size");
  const std::string* global = settings.find("training.global_batch_size");
  const auto samples = global == nullptr ? std::nullopt : number_of_text<std::int64_t>(*global);
  if (samples && *samples > 0) {
    plan.global_batch_size = samples;
    settings.take("training.global_batch_size", "training.global_batch_size");
  } else if (global != nullptr) {
    settings.ignore("training.global_batch_size", "-1: the local batch of all copies");
  }
  const auto stated =
      settings.number("parallelism.pipeline_parallel_microbatch_size", "training.micro_batch_size");
  // torchtitan's default for the local batch is 8.
  const std::int64_t batch = local.value_or(8);
  auto count = settings.number("parallelism.pipeline_parallel_microbatches", "schedule.microbatches");
  if (is_of_2024 && !count && !stated) count = plan.stages;
  if (plan.stages == 1) {
    plan.micro_batch_size = batch;
    if (!plan.global_batch_size) plan.microbatches = 1;
    return;
  }
  if (count && batch % *count == 0) {
    plan.micro_batch_size = batch / *count;
    plan.microbatches = count;
    return;
  }
  if (count) {
    settings.refuse(
        settings.has("training.local_batch_size") ? "training.local_batch_size" : "training.batch_size",
        fmt::format("expected a multiple of the {} microbatches", *count));
    return;
  }
  plan.micro_batch_size = stated.value_or(1);
  if (batch % *plan.micro_batch_size != 0) {
    settings.refuse("training.local_batch_size",
                    fmt::format("expected a multiple of the microbatch, {}", *plan.micro_batch_size));
    return;
  }
  plan.microbatches = batch / *plan.micro_batch_size;
}

void take_torch_sharding(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const std::int64_t replicas =
      settings.number("parallelism.data_parallel_replicate_degree", "parallel.data").value_or(1);
  std::int64_t shards = -1;
  // Releases of 2024 name this key data_parallel_degree.
  for (const std::string_view name :
       {"parallelism.data_parallel_degree", "parallelism.data_parallel_shard_degree"}) {
    const std::string* value = settings.find(name);
    if (value == nullptr) continue;
    if (*value == "-1") {
      settings.take(name, "parallel.data: all devices that are left");
    } else {
      shards = settings.number(name, "parallel.data").value_or(1);
    }
  }
  if (shards > 0) plan.copies = replicas * shards;
  const std::string reshard =
      settings.word("parallelism.fsdp_reshard_after_forward", "parallel.gather").value_or("default");
  if (const std::string* reduced = settings.find("training.mixed_precision_reduce");
      reduced != nullptr && *reduced == "bfloat16") {
    settings.take("training.mixed_precision_reduce", "training.gradient_bytes");
    plan.set("training.gradient_bytes", "2");
  }
  const bool is_sharded = shards != 1 || plan.context > 1;
  if (!is_sharded) {
    plan.set("parallel.distributed_optimizer", "false");
    return;
  }
  if (replicas > 1) {
    plan.notes.push_back(
        fmt::format("each of {} replicas has its own shards; here all copies share one set", replicas));
  }
  const bool keeps = reshard == "never" || (reshard == "default" && plan.stages > 1);
  if (plan.stages == 1) {
    plan.set("schedule.sharding", keeps ? "2" : "3");
    return;
  }
  plan.set("schedule.sharding", "3");
  plan.set("parallel.gather", keeps ? "step" : "microbatch");
}

void take_torch_recomputation(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const std::string mode =
      settings.word("activation_checkpoint.mode", "training.recompute").value_or("selective");
  const std::string option =
      settings.word("activation_checkpoint.selective_ac_option", "training.recompute").value_or("2");
  plan.recomputes_fully = mode == "full";
  if (!settings.has("activation_checkpoint.mode")) {
    plan.notes.emplace_back(
        "activation_checkpoint.mode is not stated: selective is taken, which is torchtitan's default");
  }
  if (mode == "none" || mode == "full") {
    plan.set("training.recompute", mode);
    settings.ignore("activation_checkpoint.selective_ac_option",
                    "torchtitan reads it only with mode = selective");
    return;
  }
  if (mode != "selective") {
    settings.refuse("activation_checkpoint.mode", "expected none, full or selective");
    return;
  }
  const auto stated = number_of_text<std::int64_t>(option);
  const std::int64_t every = stated && *stated > 0 ? *stated : 2;
  if (!stated) {
    settings.take("activation_checkpoint.selective_ac_option",
                  "training.recompute: every second layer in full, about the work and the memory of op");
  }
  const auto layers = importing.layers();
  if (!layers) {
    plan.notes.emplace_back(
        "which layers are recomputed follows from the layers of the model, which are not stated");
    return;
  }
  std::vector<std::int64_t> chosen;
  for (std::int64_t layer = every - 1; layer < *layers; layer += every) chosen.push_back(layer);
  if (!chosen.empty()) plan.set("training.recompute", fmt::format("{{full: {}}}", list_yaml(chosen)));
}

void take_torch_parallelism(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  const bool overlaps = settings.is_on("parallelism.enable_async_tensor_parallel", "parallel.tensor_overlap");
  plan.set("parallel.tensor_overlap", overlaps || plan.tensor == 1 ? "true" : "false");
  if (const auto rotate =
          settings.word("parallelism.context_parallel_rotate_method", "parallel.context_exchange");
      rotate && plan.context > 1) {
    plan.set("parallel.context_exchange", "ring");
    if (*rotate == "allgather") {
      settings.take("parallelism.context_parallel_rotate_method",
                    "parallel.context_exchange: ring, which sends the same bytes");
    }
  }
  if (const auto expert = settings.number("parallelism.expert_parallel_degree", "parallel.expert");
      expert && (*expert > 1 || importing.has_model))
    plan.set("parallel.expert", *expert);
}

/// Reads the precision of matrix products. Newer releases have a list of converters, such as
/// "quantize.linear.float8 quantize.grouped_mm.mx", and older ones have a switch.
void take_torch_precision(Importing& importing) {
  Settings& settings = importing.settings;
  const std::string converters = settings.word("model.converters", "training.precision").value_or("");
  bool is_fp8 = converters.find("float8") != std::string::npos;
  bool is_fp4 = false;
  if (converters == "mx" || converters.ends_with(".mx") || converters.find("mx ") != std::string::npos) {
    is_fp8 = true;
    for (const std::string_view recipe :
         {"mx.recipe_name", "quantize.linear.mx.recipe_name", "quantize.dense.mx.recipe_name"}) {
      const std::string* name = settings.find(recipe);
      if (name == nullptr || name->find("fp4") == std::string::npos) continue;
      settings.take(recipe, "training.precision");
      is_fp4 = true;
    }
  }
  for (const std::string_view old :
       {"float8.enable_float8_linear", "training.enable_float8_linear", "training.fp8_linear"})
    is_fp8 = settings.is_on(old, "training.precision") || is_fp8;
  importing.plan.set("training.precision", is_fp4 ? "fp4" : is_fp8 ? "fp8" : "bf16");
  refuse_32_bits(settings, "training.mixed_precision_param");
}

/// A model of torchtitan whose configuration is in scenarios/library/models.
struct TorchModel {
  std::string_view name;
  std::string_view flavor;
  std::string_view config;
};

constexpr auto kTorchModels = std::to_array<TorchModel>({{"deepseek_v3", "16B", "deepseek-v2-lite"},
                                                         {"deepseek_v3", "236B", "deepseek-v2"},
                                                         {"deepseek_v3", "671B", "deepseek-v3"}});

}  // namespace

std::string torchtitan_library_model(const Settings& settings) {
  const std::string* name = settings.find("model.name");
  const std::string* flavor = settings.find("model.flavor");
  if (name == nullptr || flavor == nullptr) return {};
  const auto found = std::ranges::find_if(kTorchModels, [&](const TorchModel& model) {
    return plain_name(model.name) == plain_name(*name) && plain_name(model.flavor) == plain_name(*flavor);
  });
  if (found != kTorchModels.end()) return std::string(found->config);
  Plan known;
  set_known_model(known, *name + "-" + *flavor);
  return known.library_model;
}

void import_torchtitan(Importing& importing) {
  Settings& settings = importing.settings;
  Plan& plan = importing.plan;
  take_launcher(importing);
  const bool is_of_2024 = settings.has("experimental.pipeline_parallel_degree");
  // In earlier releases, these keys are under [training] or [experimental].
  for (const std::string_view part : {"experimental.", "training."}) {
    for (const std::string_view name : {"pipeline_parallel_", "data_parallel_", "tensor_parallel_degree",
                                        "context_parallel_", "enable_async_tensor_parallel"})
      settings.rename(fmt::format("{}{}", part, name), fmt::format("parallelism.{}", name));
  }
  plan.tensor = settings.number("parallelism.tensor_parallel_degree", "parallel.tensor").value_or(1);
  plan.stages = settings.number("parallelism.pipeline_parallel_degree", "schedule.stages").value_or(1);
  plan.context = settings.number("parallelism.context_parallel_degree", "parallel.context").value_or(1);
  take_torch_model(importing);
  take_torch_pipeline(importing);
  take_torch_batch(importing, is_of_2024);
  take_torch_sharding(importing);
  take_torch_parallelism(importing);
  take_torch_precision(importing);
  take_torch_recomputation(importing);
  plan.set("training.framework", "torchtitan");
  settings.settle(kTorchSettled);
}

}  // namespace penstock
