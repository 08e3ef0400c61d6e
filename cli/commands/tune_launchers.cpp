// Each argument says one choice; what is left out is the framework's default and the same here. Megatron-LM
// runs 1F1B and its interleaved form; torchtitan runs PyTorch's schedules by name and any other one from
// its file of actions.

#include "cli/commands/tune_launchers.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_recompute.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"
#include "sim/tuning/configuration.hpp"

namespace penstock {
namespace {

const LayerSplit& split_of(const TuneRequest& request, const Configuration& of) {
  return request.layer_splits[of.layer_split];
}

/// A list of layers as Megatron's layout: [3, 4, 3] is "Et*3|t*4|t*3L", with embedding and loss at the ends.
std::string layout_of(const std::vector<std::int64_t>& counts) {
  std::vector<std::string> stages;
  stages.reserve(counts.size());
  for (const std::int64_t count : counts) stages.push_back(count == 0 ? "" : fmt::format("t*{}", count));
  stages.front().insert(0, "E");
  stages.back().push_back('L');
  return fmt::format("{}", fmt::join(stages, "|"));
}

/// An argument a line, as a shell takes them.
std::string joined(const std::vector<std::string>& arguments) {
  return fmt::format("  {}\n", fmt::join(arguments, " \\\n  "));
}

/// What of the configuration Megatron-LM cannot do; empty: nothing.
std::string rest_of_megatron(const Configuration& of) {
  if (of.schedule != "1f1b" && of.schedule != "interleaved")
    return fmt::format("it has no schedule {}; take --schedule 1f1b,interleaved", of.schedule);
  if (of.virtual_stages > 1 && of.microbatches % of.stages != 0) {
    return fmt::format("its interleaved schedule takes multiples of {} microbatches, the stages, not {}",
                       of.stages, of.microbatches);
  }
  if (of.sharding > 1 && of.stages > 1) {
    return "its sharding of gradients and weights (Megatron-FSDP) is documented beside tensor, expert and "
           "context parallelism, not in a pipeline; take --sharding none,1, or --pp-size 1";
  }
  return "";
}

/// A layout says how many stages there are in all, so that it stands in place of the number of virtual ones.
void add_megatron_pipeline(std::vector<std::string>& arguments, const TuneRequest& request,
                           const Configuration& of) {
  arguments.push_back(fmt::format("--pipeline-model-parallel-size {}", of.stages));
  const LayerSplit& split = split_of(request, of);
  if (split.rule == LayerSplit::Rule::listed) {
    arguments.push_back(fmt::format("--pipeline-model-parallel-layout \"{}\"", layout_of(split.counts)));
    return;
  }
  if (of.virtual_stages > 1)
    arguments.push_back(fmt::format("--num-virtual-stages-per-pipeline-rank {}", of.virtual_stages));
  if (split.rule == LayerSplit::Rule::ends_one_less) {
    arguments.emplace_back("--account-for-embedding-in-pipeline-split");
    arguments.emplace_back("--account-for-loss-in-pipeline-split");
  }
}

void add_megatron_memory(std::vector<std::string>& arguments, const TuneRequest& request,
                         const Configuration& of) {
  if (of.recompute == LayerRecompute::selective) arguments.emplace_back("--recompute-granularity selective");
  if (of.recompute == LayerRecompute::full) {
    arguments.emplace_back("--recompute-granularity full --recompute-method uniform");
    arguments.emplace_back("--recompute-num-layers 1");
  }
  if (of.sharding > 0) arguments.emplace_back("--use-distributed-optimizer");
  if (of.sharding > 1) {
    arguments.push_back(fmt::format("--use-megatron-fsdp --data-parallel-sharding-strategy {}",
                                    of.sharding == 2 ? "optim_grads" : "optim_grads_params"));
    arguments.emplace_back("--no-gradient-accumulation-fusion");
  }
  if (!model_of(request).work.parallel.data_overlap) return;
  arguments.emplace_back("--overlap-grad-reduce");
  if (of.sharding > 0) arguments.emplace_back("--overlap-param-gather");
}

/// Of PyTorch's schedule classes; empty: torchtitan runs it from a file of its actions.
std::string_view name_in_torchtitan(std::string_view schedule) {
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

void add_torchtitan_pipeline(std::vector<std::string>& arguments, const TuneRequest& request,
                             const Configuration& of) {
  const auto add = [&](std::string_view key, const auto& value) {
    arguments.push_back(fmt::format("--parallelism.pipeline_parallel_{} {}", key, value));
  };
  add("degree", of.stages);
  if (of.stages == 1) return;
  const std::string_view name = name_in_torchtitan(of.schedule);
  if (name.empty()) {
    add("schedule_csv", "schedule.csv");
  } else {
    add("schedule", name);
  }
  add("microbatch_size", of.micro_batch_size);
  // torchtitan counts an end that has one layer less as if it had them all.
  const std::int64_t ends = split_of(request, of).rule == LayerSplit::Rule::ends_one_less ? 1 : 0;
  const auto layers = static_cast<std::int64_t>(model_of(request).work.model.layers.size());
  add("layers_per_stage", (layers + 2 * ends) / (std::int64_t{of.stages} * of.virtual_stages));
  add("first_stage_less_layers", ends);
  add("last_stage_less_layers", ends);
}

/// What of the configuration torchtitan cannot do; empty: nothing.
std::string rest_of_torchtitan(const TuneRequest& request, const Configuration& of) {
  if (split_of(request, of).rule == LayerSplit::Rule::listed && of.stages > 1)
    return "it has no list of layers a stage; take --layer-split even or ends-one-less";
  if (of.sharding == 1) {
    return "it shards the optimizer's state only together with gradients; take another --sharding, such as "
           "none";
  }
  if (of.sharding > 1 && of.stages > 1) {
    return "in a pipeline it holds gradients whole until the last microbatch, which is no sharding 2 or 3; "
           "take --sharding none, or --pp-size 1";
  }
  return "";
}

}  // namespace

tl::expected<std::string, std::string> megatron_arguments(const TuneRequest& request,
                                                          const Configuration& of) {
  if (const std::string rest = rest_of_megatron(of); !rest.empty())
    return tl::unexpected(fmt::format("megatron: {}", rest));
  const Workload& work = model_of(request).work;
  std::vector<std::string> arguments = {fmt::format("--tensor-model-parallel-size {}{}", of.tensor,
                                                    of.tensor > 1 ? " --sequence-parallel" : ""),
                                        fmt::format("--context-parallel-size {}", of.context)};
  if (of.context > 1) {
    arguments.back() +=
        of.context_exchange == ContextExchange::ring ? " --cp-comm-type p2p" : " --cp-comm-type a2a";
  }
  if (work.model.experts) {
    arguments.push_back(
        fmt::format("--expert-model-parallel-size {} --expert-tensor-parallel-size 1", of.expert));
  }
  add_megatron_pipeline(arguments, request, of);
  arguments.push_back(fmt::format("--micro-batch-size {} --global-batch-size {} --seq-length {}",
                                  of.micro_batch_size, request.global_batch_size, work.sequence));
  add_megatron_memory(arguments, request, of);
  arguments.emplace_back(work.precision == GemmPrecision::bf16  ? "--bf16"
                         : work.precision == GemmPrecision::fp8 ? "--bf16 --fp8-format hybrid"
                                                                : "--bf16 --fp4-format e2m1");
  return joined(arguments);
}

tl::expected<std::string, std::string> torchtitan_arguments(const TuneRequest& request,
                                                            const Configuration& of) {
  if (const std::string rest = rest_of_torchtitan(request, of); !rest.empty())
    return tl::unexpected(fmt::format("torchtitan: {}", rest));
  const Workload& work = model_of(request).work;
  std::vector<std::string> arguments = {fmt::format("--parallelism.tensor_parallel_degree {}", of.tensor),
                                        fmt::format("--parallelism.context_parallel_degree {}", of.context)};
  if (work.model.experts)
    arguments.push_back(fmt::format("--parallelism.expert_parallel_degree {}", of.expert));
  const bool shards = of.sharding > 1;
  arguments.push_back(fmt::format("--parallelism.data_parallel_replicate_degree {}", shards ? 1 : of.data));
  arguments.push_back(fmt::format("--parallelism.data_parallel_shard_degree {}", shards ? of.data : 1));
  if (shards) {
    arguments.push_back(
        fmt::format("--parallelism.fsdp_reshard_after_forward {}", of.sharding == 3 ? "always" : "never"));
  }
  add_torchtitan_pipeline(arguments, request, of);
  // In a pipeline the local batch is what one copy trains in a step, cut into microbatches there; without one
  // it is the microbatch, and gradients are accumulated up to the global batch.
  const std::int64_t local = of.stages == 1 ? of.micro_batch_size : request.global_batch_size / of.data;
  arguments.push_back(
      fmt::format("--training.local_batch_size {} --training.global_batch_size {} --training.seq_len {}",
                  local, request.global_batch_size, work.sequence));
  arguments.push_back(fmt::format("--activation_checkpoint.mode {}", to_text(of.recompute)));
  std::string text = joined(arguments);
  if (of.stages > 1 && name_in_torchtitan(of.schedule).empty()) {
    text += "# schedule.csv: penstock tune ... -o best.yaml; penstock convert best.yaml -o schedule.csv\n";
  }
  return text;
}

}  // namespace penstock
