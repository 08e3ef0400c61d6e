// Writes the command lines of frameworks that run a configuration. A prediction is valid only for a run that
// meets its assumptions. For each assumption, a table has the arguments with which Megatron-LM and torchtitan
// meet it, or the reason why they cannot meet it:
//
//     assumption       Megatron-LM                            torchtitan
//     tensor overlap   --tp-comm-overlap                      --parallelism.enable_async_tensor_parallel
//     sharding 1       --use-distributed-optimizer            in a pipeline a shard degree, never resharded
//     deferred head    --defer-embedding-wgrad-compute        lacks it
//
// The search omits configurations that the chosen launcher cannot run. The command line is written from the
// same table, so both always agree. If a row has no argument, the launcher's default meets the assumption.
// tests/sim/launchers_test.cpp changes every assumption, and checks that the text changes or the
// configuration is refused.

#include "sim/choose/launchers.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/model/model.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/choose/configuration.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

using Arguments = std::vector<std::string>;

std::string lacks_nothing(const LaunchedRun& /*run*/) { return ""; }
Arguments says_nothing(const LaunchedRun& /*run*/) { return {}; }

const Parallel& degrees_of(const LaunchedRun& run) { return run.work.parallel; }

/// Returns true if some weights have copies, which exchange data at least once in each step.
bool has_copies(const LaunchedRun& run) {
  const Parallel& parallel = degrees_of(run);
  return parallel.weight_copies() > 1 || (run.work.model.experts && parallel.expert_copies() > 1);
}

const LayerSplit& split_of(const LaunchedRun& run) { return run.request.layer_splits[run.of.layer_split]; }

/// Returns the number of layers of each model stage. Requires a configuration of the search space, because
/// its layer split fits the model.
std::vector<std::int64_t> layers_of_stages(const LaunchedRun& run) {
  return split_layers(split_of(run), static_cast<std::int64_t>(run.work.model.layers.size()),
                      run.of.stages * run.of.virtual_stages)
      .value();
}

/// Returns true if the scenario states schedule options that change the program. If `takes_group_size` is
/// true, the size of interleaved groups is ignored, because the launcher has an argument for it.
bool has_own_options(const LaunchedRun& run, bool takes_group_size) {
  const Shape& stated = run.request.base.shape;
  Shape plain;
  // These options are choices of the search, or they do not change the program of a named schedule.
  plain.stages = stated.stages;
  plain.microbatches = stated.microbatches;
  plain.virtual_stages = stated.virtual_stages;
  plain.iterations = stated.iterations;
  plain.barrier = stated.barrier;
  plain.sharding = stated.sharding;
  plain.gather = stated.gather;
  plain.effort = stated.effort;
  plain.offload = stated.offload;
  if (takes_group_size) plain.group_size = stated.group_size;
  return stated != plain;
}

// --- unlike devices ---------------------------------------------------------------------------------------

/// Returns the first word of the maker of a device: devices of one maker share a library of collectives.
std::string_view maker_of(const DeviceType& device) {
  if (device.name.starts_with("mi")) return "AMD";
  return device.name.starts_with("tpu") ? "Google" : "NVIDIA";
}

std::string lacks_unlike_devices(const LaunchedRun& run) {
  const std::vector<DeviceKind>& kinds = model_of(run.request).kinds;
  for (const DeviceKind& kind : kinds) {
    const DeviceType& first = kinds.front().type;
    if (kind.type.devices_per_node != first.devices_per_node) {
      return fmt::format(
          "torchrun starts equally many processes on all nodes, and a node has {} {} but {} {}; take groups "
          "with equal devices_per_node",
          first.devices_per_node, first.name, kind.type.devices_per_node, kind.type.name);
    }
    if (maker_of(kind.type) != maker_of(first)) {
      return fmt::format("no library of collectives joins {} of {} and {} of {}; take groups of one maker",
                         first.name, maker_of(first), kind.type.name, maker_of(kind.type));
    }
  }
  return "";
}

/// Returns comments about the order in which nodes of unlike devices must be started. Both launchers number
/// processes node by node. The stage changes slowest in this numbering, so the first stages are on the first
/// nodes.
std::vector<std::string> device_comments(const LaunchedRun& run) {
  std::vector<std::string> parts;
  std::int64_t node = 0;
  for (const DeviceKind& kind : kinds_in_order(run.request, run.of.group_order)) {
    const std::int64_t nodes = kind.devices / kind.type.devices_per_node;
    parts.push_back(fmt::format("{} on nodes {} to {}", kind.type.name, node, node + nodes - 1));
    node += nodes;
  }
  if (parts.empty()) return {};
  return {
      fmt::format("no argument says which devices a stage has; start torchrun with --node-rank so that "
                  "these are {}",
                  fmt::join(parts, ", "))};
}

// --- Megatron-LM ------------------------------------------------------------------------------------------

/// Returns the layers of all stages in Megatron's notation for a pipeline layout.
std::string megatron_layout(const LaunchedRun& run) {
  LayerSplit split = split_of(run);
  split.counts = layers_of_stages(run);
  return layout_of(split, run.work.model.multi_token);
}

std::string megatron_lacks_context(const LaunchedRun& run) {
  const Parallel& parallel = degrees_of(run);
  if (parallel.context == 1) return "";
  if (run.work.sequence % (2 * std::int64_t{parallel.context}) != 0) {
    return fmt::format("its context parallelism takes sequences that {}, twice the degree, divides",
                       2 * parallel.context);
  }
  const std::int64_t sharing = std::int64_t{parallel.context} * parallel.tensor;
  if (parallel.context_exchange == ContextExchange::all_to_all && run.work.model.kv_heads % sharing != 0) {
    return fmt::format("its all-to-all exchange takes key heads that tensor x context, {}, divides", sharing);
  }
  return "";
}

/// Returns true if data parallelism is the last dimension in the numbering of ranks. Returns false if there
/// is only one stage or one copy, because both orders then give the same numbers.
bool puts_copies_last(const LaunchedRun& run) {
  const Parallel& parallel = degrees_of(run);
  return run.of.stages > 1 && parallel.data > 1 && parallel.order == PlacementOrder::tp_cp_ep_pp_dp;
}

std::string megatron_lacks_order(const LaunchedRun& run) {
  const Parallel& parallel = degrees_of(run);
  const bool alike = parallel.expert == parallel.tensor * parallel.context;
  if (!puts_copies_last(run) || !run.work.model.experts || alike) return "";
  return "with copies of the pipeline furthest apart (parallel.order: tp-cp-ep-pp-dp) its experts have as "
         "many "
         "copies as all else; take parallel.order: tp-cp-ep-dp-pp";
}

/// Returns true if tokens are exchanged with experts while another microbatch computes.
bool in_expert_pairs(const LaunchedRun& run) {
  return degrees_of(run).expert_overlap || run.of.schedule == "ep-1f1b";
}

/// Returns the reason why a launcher cannot offload activations. Returns an empty text if the configuration
/// offloads nothing.
std::string lacks_offload(const LaunchedRun& run) {
  if (run.of.offload == 0) return "";
  return "its release offloads no activations in a pipeline; take --offload none";
}

/// Returns the reason why a launcher cannot divide the output layer. Returns an empty text if the schedule
/// does not divide it.
std::string lacks_divided_output(const LaunchedRun& run) {
  if (run.of.stages == 1 || !divides_output(extra_stages_of(run.of.schedule))) return "";
  return fmt::format(
      "it does not divide the output layer over the ranks, as {} does; take another --schedule",
      run.of.schedule);
}

std::string megatron_lacks_schedule(const LaunchedRun& run) {
  const Configuration& of = run.of;
  if (in_expert_pairs(run) && run.work.recompute == LayerRecompute::full) {
    return "it hides the exchange of experts only without full recomputation; take --recompute "
           "none,selective";
  }
  if (of.stages == 1) return "";
  if (std::string divided = lacks_divided_output(run); !divided.empty()) return divided;
  if (of.schedule != "1f1b" && of.schedule != "interleaved" && of.schedule != "ep-1f1b")
    return fmt::format("it has no schedule {}; take --schedule 1f1b,interleaved,ep-1f1b", of.schedule);
  if (has_own_options(run, of.schedule != "1f1b")) {
    return fmt::format("it has no {} with the options that `schedule` states in the scenario; leave them out",
                       of.schedule);
  }
  if (of.virtual_stages > 1 && of.microbatches % of.stages != 0) {
    return fmt::format("its interleaved schedule takes multiples of {} microbatches, the stages, not {}",
                       of.stages, of.microbatches);
  }
  return "";
}

Arguments megatron_schedule(const LaunchedRun& run) {
  Arguments arguments = {fmt::format("--pipeline-model-parallel-size {}", run.of.stages)};
  if (const std::int32_t group = run.request.base.shape.group_size; group > 0 && run.of.virtual_stages > 1)
    arguments.push_back(fmt::format("--microbatch-group-size-per-virtual-pipeline-stage {}", group));
  return arguments;
}

/// Returns the arguments that state the layers of each stage. A layout also states the total number of
/// stages, so it replaces the argument for virtual stages.
Arguments megatron_layer_split(const LaunchedRun& run) {
  const LayerSplit::Rule rule = split_of(run).rule;
  const bool is_plain = rule == LayerSplit::Rule::even || rule == LayerSplit::Rule::ends_one_less;
  if (run.of.stages > 1 && !is_plain)
    return {fmt::format("--pipeline-model-parallel-layout \"{}\"", megatron_layout(run))};
  Arguments arguments;
  if (run.of.virtual_stages > 1)
    arguments.push_back(fmt::format("--num-virtual-stages-per-pipeline-rank {}", run.of.virtual_stages));
  if (run.of.stages > 1 && rule == LayerSplit::Rule::ends_one_less) {
    arguments.emplace_back("--account-for-embedding-in-pipeline-split");
    arguments.emplace_back("--account-for-loss-in-pipeline-split");
  }
  return arguments;
}

/// Returns true if full recomputation applies to a list of layers.
bool has_listed_layers(const LaunchedRun& run) {
  return run.work.recompute == LayerRecompute::full &&
         run.work.recomputed_layers.method == RecomputedLayers::Method::listed;
}

/// Returns the arguments of full recomputation. Megatron-LM has no argument for a list of layers, so
/// megatron_lacks() refuses such lists.
Arguments megatron_full_recompute(const RecomputedLayers& layers) {
  const bool is_block = layers.method == RecomputedLayers::Method::block;
  return {fmt::format("--recompute-granularity full --recompute-method {}", is_block ? "block" : "uniform"),
          fmt::format("--recompute-num-layers {}", layers.count)};
}

Arguments megatron_recompute(const LaunchedRun& run) {
  using enum RecomputedPart;
  const LayerRecompute recompute = run.work.recompute;
  if (recompute == LayerRecompute::none) return {};
  if (recompute.has(full)) return megatron_full_recompute(run.work.recomputed_layers);
  constexpr std::array<std::pair<RecomputedPart, std::string_view>, 7> kModules = {
      {{selective, "core_attn"},
       {norm, "layernorm"},
       {mlp, "mlp"},
       {mla_up_proj, "mla_up_proj"},
       {moe_act, "moe_act"},
       {shared_experts, "shared_experts"},
       {moe, "moe"}}};
  std::vector<std::string_view> modules;
  for (const auto& [part, module] : kModules) {
    if (recompute.has(part)) modules.push_back(module);
  }
  if (modules.empty()) return {};
  // Without such a list, Megatron-LM recomputes core_attn.
  if (recompute == LayerRecompute::selective) return {"--recompute-granularity selective"};
  return {fmt::format("--recompute-granularity selective --recompute-modules {}", fmt::join(modules, " "))};
}

/// Returns the degrees with the default values of the settings that concern the exchange of tokens with
/// experts.
Parallel with_plain_exchange(Parallel degrees) {
  const Parallel usual;
  degrees.expert_dispatch = usual.expert_dispatch;
  degrees.fp8_dispatch = usual.fp8_dispatch;
  degrees.expert_overlap = usual.expert_overlap;
  return degrees;
}

Arguments megatron_expert_exchange(const LaunchedRun& run) {
  if (!run.work.model.experts) return {};
  const Parallel& degrees = degrees_of(run);
  Arguments arguments;
  if (degrees.expert_dispatch == ExpertDispatch::deepep)
    arguments.emplace_back("--moe-token-dispatcher-type flex --moe-enable-deepep");
  if (degrees.expert_dispatch == ExpertDispatch::hybridep)
    arguments.emplace_back("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep");
  if (degrees.expert_dispatch == ExpertDispatch::alltoall)
    arguments.emplace_back("--moe-token-dispatcher-type alltoall");
  if (in_expert_pairs(run))
    arguments.emplace_back("--overlap-moe-expert-parallel-comm --delay-wgrad-compute");
  return arguments;
}

std::string megatron_lacks_sharding(const LaunchedRun& run) {
  if (run.of.sharding < 2) return "";
  if (run.of.stages > 1) {
    return "its sharding of gradients and weights (Megatron-FSDP) is documented beside tensor, expert and "
           "context parallelism, not in a pipeline; take --sharding none,1, or --pp-size 1";
  }
  if (degrees_of(run).gather == Gather::step)
    return "Megatron-FSDP exchanges gradients in every microbatch; leave parallel.gather out";
  return "";
}

/// Returns true if the option for the distributed optimizer is needed. Megatron-LM also requires it for fp8
/// weights with a single copy.
bool is_distributed(const LaunchedRun& run) {
  const bool holds_8_bits = run.work.precision == GemmPrecision::fp8;
  return run.of.sharding > 0 || (holds_8_bits && !has_copies(run));
}

Arguments megatron_sharding(const LaunchedRun& run) {
  Arguments arguments;
  if (is_distributed(run)) arguments.emplace_back("--use-distributed-optimizer");
  if (run.of.sharding > 1) {
    arguments.push_back(fmt::format("--use-megatron-fsdp --data-parallel-sharding-strategy {}",
                                    run.of.sharding == 2 ? "optim_grads" : "optim_grads_params"));
    arguments.emplace_back("--no-gradient-accumulation-fusion --ckpt-format fsdp_dtensor");
  }
  return arguments;
}

Arguments megatron_data_overlap(const LaunchedRun& run) {
  if (!degrees_of(run).data_overlap) return {};
  Arguments arguments = {"--overlap-grad-reduce"};
  if (run.of.sharding > 0) arguments.emplace_back("--overlap-param-gather");
  return arguments;
}

/// Returns the number of 4-byte values that the optimizer stores for each weight, without its copy of the
/// weight. It is 2 for Adam.
std::int32_t state_of(const LaunchedRun& run) { return run.work.optimizer_bytes / 4 - 1; }

std::string megatron_lacks_optimizer(const LaunchedRun& run) {
  if (state_of(run) == 2) return "";
  if (run.request.base.optimizer == Optimizer::rmsprop)
    return "it has no optimizer rmsprop; take training.optimizer: adam";
  if (is_distributed(run)) return "its distributed optimizer is adam; take --sharding none";
  return "";
}

Arguments megatron_optimizer(const LaunchedRun& run) {
  Arguments arguments;
  if (run.work.gradient_bytes == 2) arguments.emplace_back("--grad-reduce-in-bf16");
  if (state_of(run) == 1) arguments.emplace_back("--optimizer sgd");
  if (state_of(run) == 0) arguments.emplace_back("--optimizer sgd --sgd-momentum 0");
  return arguments;
}

std::string megatron_lacks_precision(const LaunchedRun& run) {
  if (run.work.precision != GemmPrecision::fp8 || is_distributed(run)) return "";
  return "it holds weights in 8 bits (--fp8-param-gather) only with its distributed optimizer; take "
         "another "
         "--sharding than none";
}

Arguments megatron_precision(const LaunchedRun& run) {
  switch (run.work.precision) {
    case GemmPrecision::bf16:
      return {"--bf16"};
    case GemmPrecision::fp8:
      return {"--bf16 --fp8-format hybrid --fp8-param-gather"};
    case GemmPrecision::fp4:
      return {"--bf16 --fp4-format e2m1 --fp4-param-gather"};
  }
  return {};
}

std::string megatron_lacks_head(const LaunchedRun& run) {
  if (!run.work.deferred_head) return "";
  if (run.of.stages > 1) return "";
  return "it defers the head's weight gradient (training.deferred_head) only in a pipeline; take more "
         "stages";
}

Arguments megatron_head(const LaunchedRun& run) {
  Arguments arguments;
  if (run.work.deferred_head) arguments.emplace_back("--defer-embedding-wgrad-compute");
  if (run.work.model.multi_token > 0)
    arguments.push_back(fmt::format("--mtp-num-layers {}", run.work.model.multi_token));
  return arguments;
}

/// Returns comments about the environment variable CUDA_DEVICE_MAX_CONNECTIONS, which Megatron-LM checks when
/// it starts. Blackwell devices, the only ones with 4-bit matrix products, need none.
std::vector<std::string> megatron_comments(const LaunchedRun& run) {
  const bool is_blackwell = run.work.device.fp4_flops_per_second > 0;
  if (run.of.sharding > 1) return {"it starts only where CUDA_DEVICE_MAX_CONNECTIONS is not 1"};
  if (is_blackwell || (run.of.tensor == 1 && run.of.context == 1)) return {};
  return {"it starts only with CUDA_DEVICE_MAX_CONNECTIONS=1 in the environment"};
}

// --- torchtitan -------------------------------------------------------------------------------------------

/// Returns the name of PyTorch's class for a schedule. If PyTorch has no such class, returns an empty text,
/// and torchtitan must read the actions from a file.
std::string_view torchtitan_schedule_name(std::string_view schedule) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kNames = {
      {{"1f1b", "1F1B"},
       {"gpipe", "GPipe"},
       {"interleaved", "Interleaved1F1B"},
       {"looped-bfs", "LoopedBFS"},
       {"interleaved-zero-bubble", "InterleavedZeroBubble"},
       {"zbv-zero-bubble", "ZBVZeroBubble"},
       {"dualpipe-v", "DualPipeV"}}};
  for (const auto& [name, theirs] : kNames) {
    if (name == schedule) return theirs;
  }
  return "";
}

/// Returns true if the second chunks are placed on ranks in reverse order, as in two of torchtitan's own
/// schedules.
bool lies_as_v(std::string_view schedule) {
  constexpr std::array<std::string_view, 6> kVs = {"zb-v",   "v-half",          "v-min",
                                                   "1f1b-v", "zbv-zero-bubble", "dualpipe-v"};
  return std::ranges::find(kVs, schedule) != kVs.end();
}

std::string torchtitan_lacks_schedule(const LaunchedRun& run) {
  const std::string_view schedule = run.of.schedule;
  if (schedule == "ep-1f1b")
    return "its experts exchange tokens beside nothing; take another --schedule than ep-1f1b";
  if (run.of.stages == 1) return "";
  if (std::string divided = lacks_divided_output(run); !divided.empty()) return divided;
  // A file of actions can express all options except recomputation, for which PyTorch has no action.
  const bool is_named = !torchtitan_schedule_name(schedule).empty();
  const bool recomputes = run.request.base.shape.checkpoint != Checkpoint::never;
  if (recomputes || (is_named && has_own_options(run, false))) {
    return fmt::format("it has no {} with the options that `schedule` states in the scenario; leave them out",
                       schedule);
  }
  if (schedule == "seq-1f1b") return "it has no slices of a sequence; take another --schedule than seq-1f1b";
  const bool is_searched = takes_option(*find_schedule(schedule), "placement");
  if (is_searched && run.of.virtual_stages > 1) {
    return fmt::format("it does not place several stages of {} on a rank as the search does; take v = 1",
                       schedule);
  }
  return "";
}

/// Returns the arguments for the schedule. If a file states the actions, the schedule's name only
/// determines which rank holds which stage.
Arguments torchtitan_schedule(const LaunchedRun& run) {
  Arguments arguments;
  const auto add = [&](std::string_view key, const auto& value) {
    arguments.push_back(fmt::format("--parallelism.pipeline_parallel_{} {}", key, value));
  };
  add("degree", run.of.stages);
  if (run.of.stages == 1) return arguments;
  const std::string_view name = torchtitan_schedule_name(run.of.schedule);
  if (!name.empty()) {
    add("schedule", name);
  } else {
    const std::string_view several = lies_as_v(run.of.schedule) ? "ZBVZeroBubble" : "PipelineScheduleMulti";
    add("schedule", run.of.virtual_stages == 1 ? "PipelineScheduleSingle" : several);
    add("schedule_csv", "schedule.csv");
  }
  add("microbatch_size", run.of.micro_batch_size);
  return arguments;
}

/// Returns the list of each stage's modules as an argument. torchtitan's names are tok_embeddings, layers.0,
/// .., norm and output.
std::string torchtitan_modules(const LaunchedRun& run) {
  std::vector<std::string> stages;
  std::int64_t next = 0;
  const std::vector<std::int64_t> counts = layers_of_stages(run);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::vector<std::string> modules;
    if (i == 0) modules.emplace_back("tok_embeddings");
    for (std::int64_t n = 0; n < counts[i]; ++n) modules.push_back(fmt::format("layers.{}", next++));
    if (i + 1 == counts.size()) modules.emplace_back("norm,output");
    stages.push_back(fmt::format("{}", fmt::join(modules, ",")));
  }
  return fmt::format("{}", fmt::join(stages, " "));
}

std::string torchtitan_lacks_layer_split(const LaunchedRun& run) {
  // The numbers of balanced layers are computed only for the command line. They are not known yet when the
  // space is built.
  if (run.of.stages == 1 || split_of(run).rule == LayerSplit::Rule::balanced) return "";
  const std::vector<std::int64_t> counts = layers_of_stages(run);
  // Only inner stages may be empty. The first and the last stage have modules that are not layers.
  const bool has_empty = std::any_of(counts.begin() + 1, counts.end() - 1, [](auto n) { return n == 0; });
  return has_empty ? "it has no stage without a module; take another --layer-split" : "";
}

Arguments torchtitan_layer_split(const LaunchedRun& run) {
  if (run.of.stages == 1) return {};
  const LayerSplit::Rule rule = split_of(run).rule;
  if (rule != LayerSplit::Rule::even && rule != LayerSplit::Rule::ends_one_less)
    return {fmt::format("--parallelism.module_fqns_per_model_part {}", torchtitan_modules(run))};
  // For torchtitan, the number of layers per stage is that of the inner stages. The next two arguments state
  // how many layers fewer the first and the last stage have.
  const std::int64_t ends = rule == LayerSplit::Rule::ends_one_less ? 1 : 0;
  const auto layers = static_cast<std::int64_t>(run.work.model.layers.size());
  const std::int64_t each = (layers + 2 * ends) / (std::int64_t{run.of.stages} * run.of.virtual_stages);
  return {fmt::format("--parallelism.pipeline_parallel_layers_per_stage {}", each),
          fmt::format("--parallelism.pipeline_parallel_first_stage_less_layers {}", ends),
          fmt::format("--parallelism.pipeline_parallel_last_stage_less_layers {}", ends)};
}

// In a pipeline, the local batch is the part of the global batch that one copy processes, and torchtitan
// divides it into microbatches. Without a pipeline, the local batch is one microbatch, and gradients are
// accumulated over several of them.
Arguments torchtitan_batch(const LaunchedRun& run) {
  const std::int64_t local =
      run.of.stages == 1 ? run.of.micro_batch_size : run.request.global_batch_size / run.of.data;
  return {fmt::format("--training.local_batch_size {} --training.global_batch_size {} --training.seq_len {}",
                      local, run.request.global_batch_size, run.work.sequence)};
}

// FSDP shards over data x context devices. In a pipeline without resharding, it gathers weights once per step
// and reduces gradients only in the last microbatch, as with sharding 1. Without a pipeline, each microbatch
// scatters its gradients and frees its weights after the backward pass, as with sharding 3. With one
// microbatch and without resharding, this is sharding 2.
std::string torchtitan_lacks_sharding(const LaunchedRun& run) {
  const Parallel& parallel = degrees_of(run);
  const std::int32_t sharding = parallel.sharding;
  if (sharding == 0) {
    if (parallel.context > 1)
      return "its copies of context parallelism share out weights (FSDP); take another --sharding than none";
    const bool is_alone = parallel.tensor == 1 && run.of.stages == 1 && parallel.expert == 1;
    if (parallel.data > 1 && !is_alone)
      return "it replicates weights (DDP) beside no other parallelism; take another --sharding than none";
    return "";
  }
  if (run.of.stages > 1) {
    if (parallel.sharding_between_steps() == 1) return "";
    return "in a pipeline it gathers weights once a step and holds gradients whole until the last "
           "microbatch; take --sharding 1";
  }
  const bool has_one = run.of.microbatches == 1;
  if (sharding == 1) {
    return "without a pipeline it scatters gradients in every microbatch; take --sharding 3, or 2 with one "
           "microbatch a step";
  }
  if (parallel.gather == Gather::step && !has_one)
    return "without a pipeline it exchanges in every microbatch; leave parallel.gather out";
  if (sharding == 2 && !has_one)
    return "without a pipeline it gathers weights in every microbatch; take --sharding 3";
  return "";
}

Arguments torchtitan_sharding(const LaunchedRun& run) {
  const Parallel& parallel = degrees_of(run);
  const bool shards = parallel.sharding > 0;
  Arguments arguments = {
      fmt::format("--parallelism.data_parallel_replicate_degree {}", shards ? 1 : parallel.data),
      fmt::format("--parallelism.data_parallel_shard_degree {}", shards ? parallel.data : 1)};
  if (shards) {
    const bool reshards = parallel.sharding_between_steps() == 3;
    arguments.push_back(
        fmt::format("--parallelism.fsdp_reshard_after_forward {}", reshards ? "always" : "never"));
  }
  return arguments;
}

/// Returns the arguments for the precision. Gathers of 8-bit weights work only with FSDP.
Arguments torchtitan_precision(const LaunchedRun& run) {
  if (run.work.precision == GemmPrecision::bf16) return {};
  Arguments arguments = {"--model.converters quantize.linear.float8"};
  const bool compiles = run.of.tensor > 1 && degrees_of(run).tensor_overlap;
  if (!compiles) arguments.back() += " --compile.enable";
  if (degrees_of(run).sharding > 0)
    arguments.emplace_back("--quantize.linear.float8.enable_fsdp_float8_all_gather");
  return arguments;
}

std::string torchtitan_lacks_precision(const LaunchedRun& run) {
  if (run.work.precision == GemmPrecision::fp4) return "it has no fp4; take --precision bf16";
  return "";
}

std::vector<std::string> torchtitan_comments(const LaunchedRun& run) {
  if (run.of.stages == 1 || !torchtitan_schedule_name(run.of.schedule).empty()) return {};
  return {"schedule.csv: penstock tune ... -o best.yaml; penstock convert best.yaml -o schedule.csv"};
}

// --- the table --------------------------------------------------------------------------------------------

// The rows are in the order in which arguments are written.
constexpr std::array<LaunchAssumption, 19> kAssumptions = {{
    {.name = "offload", .megatron = {lacks_offload, says_nothing}, .torchtitan = {lacks_offload, says_nothing}},
    {.name = "unlike devices",
     .megatron = {lacks_unlike_devices, says_nothing},
     .torchtitan = {lacks_unlike_devices, says_nothing}},
    {.name = "tensor parallelism",
     .megatron = {lacks_nothing,
                  [](const LaunchedRun& run) -> Arguments {
                    return {fmt::format("--tensor-model-parallel-size {}", run.of.tensor)};
                  }},
     .torchtitan = {lacks_nothing,
                    [](const LaunchedRun& run) -> Arguments {
                      return {fmt::format("--parallelism.tensor_parallel_degree {}", run.of.tensor)};
                    }}},
    {.name = "sequence parallelism",
     .megatron = {
         [](const LaunchedRun& run) -> std::string {
           const Parallel& parallel = degrees_of(run);
           const bool needs = parallel.tensor > 1 && run.work.model.experts.has_value();
           if (!needs || parallel.sequence_parallel) return "";
           return "it trains experts with tensor parallelism only if sequence parallelism is on; take "
                  "parallel.sequence_parallel: on";
         },
         [](const LaunchedRun& run) -> Arguments {
           if (run.of.tensor == 1 || !degrees_of(run).sequence_parallel) return {};
           return {"--sequence-parallel"};
         }},
     .torchtitan = {[](const LaunchedRun& run) -> std::string {
                      if (run.of.tensor == 1 || degrees_of(run).sequence_parallel) return "";
                      return "its tensor parallelism has sequence parallelism with it; take "
                             "parallel.sequence_parallel: on";
                    },
                    says_nothing}},
    {.name = "tensor overlap",
     .megatron = {[](const LaunchedRun& run) -> std::string {
                    const Parallel& parallel = degrees_of(run);
                    const bool overlaps = parallel.tensor > 1 && parallel.tensor_overlap;
                    if (!overlaps || parallel.sequence_parallel) return "";
                    return "it overlaps tensor collectives only with sequence parallelism; take "
                           "parallel.tensor_overlap: off";
                  },
                  [](const LaunchedRun& run) -> Arguments {
                    if (run.of.tensor == 1 || !degrees_of(run).tensor_overlap) return {};
                    return {"--tp-comm-overlap"};
                  }},
     .torchtitan = {lacks_nothing,
                    [](const LaunchedRun& run) -> Arguments {
                      if (run.of.tensor == 1 || !degrees_of(run).tensor_overlap) return {};
                      return {"--parallelism.enable_async_tensor_parallel --compile.enable"};
                    }}},
    {.name = "context parallelism",
     .megatron = {megatron_lacks_context,
                  [](const LaunchedRun& run) -> Arguments {
                    std::string argument = fmt::format("--context-parallel-size {}", run.of.context);
                    const bool is_ring = run.of.context_exchange == ContextExchange::ring;
                    if (run.of.context > 1)
                      argument += is_ring ? " --cp-comm-type p2p" : " --cp-comm-type a2a";
                    return {std::move(argument)};
                  }},
     .torchtitan = {[](const LaunchedRun& run) -> std::string {
                      const bool is_ring = run.of.context_exchange == ContextExchange::ring;
                      if (run.of.context == 1 || is_ring) return "";
                      return "it exchanges keys and values, not heads; take --context-exchange ring";
                    },
                    [](const LaunchedRun& run) -> Arguments {
                      std::string argument =
                          fmt::format("--parallelism.context_parallel_degree {}", run.of.context);
                      // "alltoall" sends keys and values from device to device. "allgather" would gather all
                      // of them at once.
                      if (run.of.context > 1)
                        argument += " --parallelism.context_parallel_rotate_method alltoall";
                      return {std::move(argument)};
                    }}},
    {.name = "expert parallelism",
     .megatron = {lacks_nothing,
                  [](const LaunchedRun& run) -> Arguments {
                    if (!run.work.model.experts) return {};
                    return {fmt::format("--expert-model-parallel-size {} --expert-tensor-parallel-size 1",
                                        run.of.expert)};
                  }},
     .torchtitan = {lacks_nothing,
                    [](const LaunchedRun& run) -> Arguments {
                      if (!run.work.model.experts) return {};
                      return {
                          fmt::format("--parallelism.expert_parallel_degree {} "
                                      "--parallelism.expert_tensor_parallel_degree 1",
                                      run.of.expert)};
                    }}},
    {.name = "exchange of experts",
     .megatron = {[](const LaunchedRun& run) -> std::string {
                    if (!run.work.model.experts || !degrees_of(run).fp8_dispatch) return "";
                    return "its dispatchers send tokens in 16 bits; take parallel.fp8_dispatch: false";
                  },
                  megatron_expert_exchange},
     .torchtitan = {[](const LaunchedRun& run) -> std::string {
                      if (!run.work.model.experts || degrees_of(run) == with_plain_exchange(degrees_of(run)))
                        return "";
                      return "its experts exchange tokens of 16 bits by an all-to-all beside nothing; leave "
                             "parallel.expert_dispatch, fp8_dispatch and expert_overlap out";
                    },
                    says_nothing}},
    {.name = "order of devices",
     .megatron = {megatron_lacks_order,
                  [](const LaunchedRun& run) -> Arguments {
                    if (!puts_copies_last(run)) return {};
                    return {"--use-tp-pp-dp-mapping"};
                  }},
     .torchtitan =
         {[](const LaunchedRun& run) -> std::string {
            if (!puts_copies_last(run)) return "";
            return "its stages are furthest apart; take parallel.order: tp-cp-ep-dp-pp, or leave it "
                   "out";
          },
          says_nothing}},
    {.name = "schedule",
     .megatron = {megatron_lacks_schedule, megatron_schedule},
     .torchtitan = {torchtitan_lacks_schedule, torchtitan_schedule}},
    {.name = "layer split",
     .megatron = {lacks_nothing, megatron_layer_split},
     .torchtitan = {torchtitan_lacks_layer_split, torchtitan_layer_split}},
    {.name = "batch",
     .megatron = {lacks_nothing,
                  [](const LaunchedRun& run) -> Arguments {
                    return {fmt::format("--micro-batch-size {} --global-batch-size {} --seq-length {}",
                                        run.of.micro_batch_size, run.request.global_batch_size,
                                        run.work.sequence)};
                  }},
     .torchtitan = {lacks_nothing, torchtitan_batch}},
    {.name = "recomputation",
     .megatron = {[](const LaunchedRun& run) -> std::string {
                   if (has_listed_layers(run))
                     return "it cannot recompute a list of layers; state a number of layers";
                   if (!run.work.recompute.has(RecomputedPart::activation)) return "";
                    return "it recomputes only the activation of experts; take another --recompute";
                  },
                  megatron_recompute},
     .torchtitan = {[](const LaunchedRun& run) -> std::string {
                      const LayerRecompute recompute = run.work.recompute;
                      const bool is_partial = recompute == LayerRecompute::full &&
                                              run.work.recomputed_layers != RecomputedLayers{};
                      if (is_partial)
                        return "it recomputes all layers in full or none; take --recompute none,full";
                      if (recompute == LayerRecompute::none || recompute == LayerRecompute::full) return "";
                      return "its selective checkpoints recompute more than a part of each layer; take "
                             "--recompute none,full";
                    },
                    [](const LaunchedRun& run) -> Arguments {
                      return {fmt::format("--activation_checkpoint.mode {}", to_text(run.work.recompute))};
                    }}},
    {.name = "sharding",
     .megatron = {megatron_lacks_sharding, megatron_sharding},
     .torchtitan = {torchtitan_lacks_sharding, torchtitan_sharding}},
    {.name = "data overlap",
     .megatron = {lacks_nothing, megatron_data_overlap},
     .torchtitan = {[](const LaunchedRun& run) -> std::string {
                      if (degrees_of(run).data_overlap || !has_copies(run)) return "";
                      return "its copies always exchange beside the passes; take parallel.data_overlap: on";
                    },
                    says_nothing}},
    {.name = "bucket size",
     .megatron = {lacks_nothing,
                  [](const LaunchedRun& run) -> Arguments {
                    const std::int64_t size = degrees_of(run).bucket_size;
                    if (size == Parallel{}.bucket_size) return {};
                    return {fmt::format("--ddp-bucket-size {}", size)};
                  }},
     .torchtitan = {[](const LaunchedRun& run) -> std::string {
                      if (degrees_of(run).bucket_size == Parallel{}.bucket_size || !has_copies(run)) return "";
                      return "its buckets are not counted in values; leave parallel.bucket_size out";
                    },
                    says_nothing}},
    {.name = "gradients and optimizer",
     .megatron = {megatron_lacks_optimizer, megatron_optimizer},
     .torchtitan = {[](const LaunchedRun& run) -> std::string {
                      if (state_of(run) != 2) return "its optimizers are adam; take training.optimizer: adam";
                      return "";
                    },
                    [](const LaunchedRun& run) -> Arguments {
                      if (run.work.gradient_bytes != 2) return {};
                      return {"--training.mixed_precision_reduce bfloat16"};
                    }}},
    {.name = "precision",
     .megatron = {megatron_lacks_precision, megatron_precision},
     .torchtitan = {torchtitan_lacks_precision, torchtitan_precision}},
    {.name = "head and multi-token prediction",
     .megatron = {megatron_lacks_head, megatron_head},
     .torchtitan =
         {[](const LaunchedRun& run) -> std::string {
            if (run.work.deferred_head)
              return "it does not defer the head's weight gradient; take training.deferred_head: off";
            if (run.work.model.multi_token > 0)
              return "it trains no multi-token prediction; leave model.multi_token out";
            return "";
          },
          says_nothing}},
}};

/// Returns comments with those keys of the scenario that no argument expresses. `penstock import` reads
/// these comments, so that an imported configuration has the same costs as the original one.
std::vector<std::string> key_comments(Launcher launcher, const LaunchedRun& run) {
  const Framework own = launcher == Launcher::megatron ? Framework::megatron_te : Framework::torchtitan;
  if (run.work.framework == own) return {};
  return {fmt::format("penstock: training.framework={}", to_text(run.work.framework))};
}

const LauncherAnswer& answer_of(Launcher launcher, const LaunchAssumption& assumption) {
  return launcher == Launcher::megatron ? assumption.megatron : assumption.torchtitan;
}

}  // namespace

std::string_view release_of(Launcher launcher) {
  return launcher == Launcher::megatron ? "Megatron-LM core_v0.15.0" : "torchtitan v0.2.1";
}

std::span<const LaunchAssumption> launch_assumptions() { return kAssumptions; }

std::string beyond_launcher(Launcher launcher, const LaunchedRun& run) {
  for (const LaunchAssumption& assumption : kAssumptions) {
    std::string reason = answer_of(launcher, assumption).lacks(run);
    if (!reason.empty()) return reason;
  }
  return "";
}

std::string launch_arguments(Launcher launcher, const TuneRequest& request,
                             const Configuration& configuration) {
  Workload work = model_of(request).work;
  work.parallel.gather = request.base.shape.gather;
  set_choices(work, configuration);
  choose_devices(work, request, configuration);
  const LaunchedRun run{.request = request, .of = configuration, .work = work};
  Arguments arguments;
  for (const LaunchAssumption& assumption : kAssumptions)
    std::ranges::move(answer_of(launcher, assumption).arguments(run), std::back_inserter(arguments));
  std::string text = fmt::format("# {}, on {} devices\n", release_of(launcher), device_count(configuration));
  for (const std::string& comment :
       launcher == Launcher::megatron ? megatron_comments(run) : torchtitan_comments(run))
    text += fmt::format("# {}\n", comment);
  for (const std::string& comment : device_comments(run)) text += fmt::format("# {}\n", comment);
  for (const std::string& comment : key_comments(launcher, run)) text += fmt::format("# {}\n", comment);
  const std::int64_t devices = device_count(configuration);
  return text + fmt::format("torchrun --nnodes {} --nproc-per-node {} {} \\\n  {}\n", configuration.nodes,
                            devices / std::max<std::int64_t>(1, configuration.nodes),
                            launcher == Launcher::megatron ? "pretrain_gpt.py" : "-m torchtitan.train",
                            fmt::join(arguments, " \\\n  "));
}

}  // namespace penstock
