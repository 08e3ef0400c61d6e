// Accepts the flags of other programs:
//
//     penstock simulate --pipeline-model-parallel-size 4    ->    penstock simulate --pp-size 4
//
// The first table has names with exactly the same meaning. The second table has switches without a value,
// which become a flag with a value. The third table has names of settings that Penstock does not have, and a
// text that says how to compute Penstock's setting. The help leaves out all these names, because it would be
// three times as long.

#include "cli/flags.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/enum_words.hpp"
#include "text/escaping.hpp"

namespace penstock {

namespace {

struct OtherName {
  std::string_view theirs;
  std::string_view ours;
};

constexpr std::array<OtherName, 43> kOtherNames = {{
    {"--pipeline-model-parallel-size", "--pp-size"},
    {"--pipeline-parallel-size", "--pp-size"},
    {"--pipeline-parallel-degree", "--pp-size"},
    {"--pipe-parallel-size", "--pp-size"},
    {"--parallelism.pipeline_parallel_degree", "--pp-size"},
    {"--parallelism.pipeline_parallel_schedule", "--schedule"},
    {"--pipeline-schedule", "--schedule"},
    {"--num-virtual-stages-per-pipeline-rank", "--virtual-stages"},
    {"--virtual-pipeline-model-parallel-size", "--virtual-stages"},
    {"--virtual-pp-degree", "--virtual-stages"},
    {"--num-model-chunks", "--virtual-stages"},
    {"--microbatch-group-size-per-virtual-pipeline-stage", "--group-size"},
    {"--microbatch-group-size-per-vp-stage", "--group-size"},
    {"--num-micro-batches", "--num-microbatches"},
    {"--gradient-accumulation-steps", "--num-microbatches"},
    {"--train-micro-batch-size-per-gpu", "--micro-batch-size"},
    {"--per-device-train-batch-size", "--micro-batch-size"},
    {"--microbatch-size", "--micro-batch-size"},
    {"--parallelism.pipeline_parallel_microbatch_size", "--micro-batch-size"},
    {"--train-batch-size", "--global-batch-size"},
    {"--training.global_batch_size", "--global-batch-size"},
    {"--data-parallel-size", "--data-parallel"},
    {"--data-parallel-degree", "--data-parallel"},
    {"--dp-size", "--data-parallel"},
    {"--parallelism.data_parallel_replicate_degree", "--data-parallel"},
    {"--zero-stage", "--sharding"},
    {"--seq-length", "--sequence"},
    {"--training.seq_len", "--sequence"},
    {"--num-layers", "--layers"},
    {"--nnodes", "--nodes"},
    {"--num-nodes", "--nodes"},
    {"--tensor-model-parallel-size", "--tensor-parallel"},
    {"--tensor-parallel-size", "--tensor-parallel"},
    {"--tensor-parallel-degree", "--tensor-parallel"},
    {"--tp-size", "--tensor-parallel"},
    {"--parallelism.tensor_parallel_degree", "--tensor-parallel"},
    {"--context-parallel-size", "--context-parallel"},
    {"--parallelism.context_parallel_degree", "--context-parallel"},
    {"--expert-model-parallel-size", "--expert-parallel"},
    {"--parallelism.expert_parallel_degree", "--expert-parallel"},
    {"--recompute-granularity", "--recompute"},
    {"--pipeline-model-parallel-layout", "--layer-split"},
    {"--ep-size", "--expert-parallel"},
}};

/// A rule for switches of another program that together mean one value of a Penstock flag.
struct Switches {
  std::array<std::string_view, 2> theirs;  ///< The second one is empty if one switch is enough.
  std::string_view ours;
  std::string_view value;
};

constexpr std::array<Switches, 2> kSwitches = {
    {{.theirs = {"--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"},
      .ours = "--layer-split",
      .value = "ends-one-less"},
     {.theirs = {"--recompute-activations", ""}, .ours = "--recompute", .value = "selective"}}};

struct Advice {
  std::string_view theirs;
  std::string_view text;
};

constexpr std::string_view kOfModel =
    "the sizes of a model are those of its --model config.json, or keys of model.transformer in a scenario; "
    "all flags of a run may be pasted behind `penstock import --`";
constexpr std::string_view kOfLayers =
    "write how many layers each stage has, such as --layer-split '[7, 8, 8, 7]'";
constexpr std::string_view kOfChunks =
    "write how many chunks a rank has: --virtual-stages v, where v is the layers of the model over K x the "
    "layers "
    "of a chunk";
constexpr std::string_view kOfRecompute =
    "write how each layer recomputes: --recompute none, selective, norm, activation, mlp or full";
constexpr std::string_view kOfSharding =
    "write the ZeRO stage over the copies: --sharding 1 to 3 with --data-parallel N";

constexpr std::array<Advice, 49> kAdvice = {{
    {"--account-for-embedding-in-pipeline-split",
     "with --account-for-loss-in-pipeline-split it is --layer-split ends-one-less; alone, write the layers "
     "of "
     "each stage: --layer-split '[3, 4, 4]'"},
    {"--account-for-loss-in-pipeline-split",
     "with --account-for-embedding-in-pipeline-split it is --layer-split ends-one-less; alone, write the "
     "layers "
     "of each stage: --layer-split '[4, 4, 3]'"},
    {"--num-layers-per-virtual-pipeline-stage", kOfChunks},
    {"--parallelism.pipeline_parallel_layers_per_stage", kOfChunks},
    {"--decoder-first-pipeline-num-layers", kOfLayers},
    {"--decoder-last-pipeline-num-layers", kOfLayers},
    {"--num-layers-in-first-pipeline-stage", kOfLayers},
    {"--num-layers-in-last-pipeline-stage", kOfLayers},
    {"--parallelism.pipeline_parallel_first_stage_less_layers", kOfLayers},
    {"--parallelism.pipeline_parallel_last_stage_less_layers", kOfLayers},
    {"--parallelism.module_fqns_per_model_part", kOfLayers},
    {"--parallelism.pipeline_parallel_split_points", kOfLayers},
    {"--parallelism.pipeline_parallel_schedule_csv",
     "give the file itself in place of a scenario: penstock simulate schedule.csv"},
    {"--training.local_batch_size",
     "write --num-microbatches M, the local batch over the size of a microbatch"},
    {"--training.batch_size", "write --num-microbatches M, the local batch over the size of a microbatch"},
    {"--parallelism.data_parallel_shard_degree", kOfSharding},
    {"--sharding-parallel-degree", kOfSharding},
    {"--use-distributed-optimizer", "write --sharding 1"},
    {"--use-torch-fsdp2", kOfSharding},
    {"--data-parallel-sharding-strategy", kOfSharding},
    {"--overlap-grad-reduce", "write --set parallel.data_overlap=on, which is the default"},
    {"--tp-comm-overlap", "write --set parallel.tensor_overlap=on, which is the default"},
    {"--sequence-parallel", "write --set parallel.sequence_parallel=on, which is the default"},
    {"--cp-comm-type", "write --set parallel.context_exchange=ring or all-to-all"},
    {"--recompute-method", kOfRecompute},
    {"--recompute-num-layers", kOfRecompute},
    {"--recompute-modules", kOfRecompute},
    {"--activation-checkpoint.mode", kOfRecompute},
    {"--gradient-checkpointing", kOfRecompute},
    {"--bf16", "write --precision bf16, which is the default"},
    {"--fp8-format", "write --precision fp8"},
    {"--hidden-size", kOfModel},
    {"--ffn-hidden-size", kOfModel},
    {"--num-attention-heads", kOfModel},
    {"--num-query-groups", kOfModel},
    {"--group-query-attention", kOfModel},
    {"--kv-channels", kOfModel},
    {"--vocab-size", kOfModel},
    {"--swiglu", kOfModel},
    {"--normalization", kOfModel},
    {"--untie-embeddings-and-output-weights", kOfModel},
    {"--num-experts", kOfModel},
    {"--moe-router-topk", kOfModel},
    {"--moe-ffn-hidden-size", kOfModel},
    {"--max-position-embeddings", kOfModel},
    {"--model.name", kOfModel},
    {"--model.flavor", kOfModel},
    {"--nproc-per-node", "write --set cluster.devices_per_node=N"},
    {"--model-parallel-size", "write --tensor-parallel N, and --pp-size K for the pipeline"},
}};

/// Returns the row of `rows` for `flag`, or null if there is none. In names of flags, a dash and an
/// underscore count as equal.
template <typename Row, std::size_t count>
const Row* row_of(const std::array<Row, count>& rows, std::string_view flag) {
  if (!flag.starts_with("--")) return nullptr;
  const std::string wanted = plain_name(flag);
  const auto found = std::ranges::find(rows, wanted, [](const Row& row) { return plain_name(row.theirs); });
  return found == rows.end() ? nullptr : &*found;
}

std::string flag_of(const std::string& argument) { return argument.substr(0, argument.find('=')); }

/// Replaces switches of another program by Penstock's flag and its value, if all switches of the entry are
/// present.
void replace_switches(std::vector<std::string>& arguments, const Switches& row) {
  const auto end = std::ranges::find(arguments, "--");
  const auto is_named = [](const std::string& argument, std::string_view name) {
    return argument.starts_with("--") && plain_name(argument) == plain_name(name);
  };
  const auto is_one = [&](const std::string& argument) {
    return std::ranges::any_of(
        row.theirs, [&](std::string_view name) { return !name.empty() && is_named(argument, name); });
  };
  const auto is_there = [&](std::string_view name) {
    return name.empty() || std::any_of(arguments.begin(), end,
                                       [&](const std::string& typed) { return is_named(typed, name); });
  };
  if (!std::ranges::all_of(row.theirs, is_there)) return;
  const auto first = std::find_if(arguments.begin(), end, is_one);
  *first = row.ours;
  const auto rest = arguments.insert(first + 1, std::string(row.value)) + 1;
  arguments.erase(std::remove_if(rest, std::ranges::find(rest, arguments.end(), "--"), is_one),
                  std::ranges::find(rest, arguments.end(), "--"));
}

}  // namespace

std::vector<std::string> with_our_names(std::span<const char* const> arguments,
                                        const std::function<bool(std::string_view)>& takes) {
  std::vector<std::string> translated(arguments.begin(), arguments.end());
  for (const Switches& row : kSwitches) {
    if (takes(row.ours)) replace_switches(translated, row);
  }
  for (std::string& argument : translated) {
    if (argument == "--") break;
    const std::string flag = flag_of(argument);
    const OtherName* const found = row_of(kOtherNames, flag);
    if (found != nullptr && takes(found->ours)) argument.replace(0, flag.size(), found->ours);
  }
  return translated;
}

std::string_view advice_on_flag(std::string_view flag) {
  const Advice* const found = row_of(kAdvice, flag);
  return found == nullptr ? std::string_view{} : found->text;
}

// Escapes the names that a user typed, such as names of files. Messages come from many parts of the program,
// and each may contain such a name fully or in part. Therefore the finished message is searched for the
// names. An argument is split at slashes and equal signs, because messages often contain only a part of it.

namespace {

/// Replaces all occurrences of `from` by `to`. The search continues after the inserted text. It therefore
/// ends even if `to` contains `from`.
void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

}  // namespace

std::string with_names_shown(std::string message, std::span<const char* const> arguments) {
  for (std::string_view rest : arguments) {
    while (!rest.empty()) {
      const std::string_view name = rest.substr(0, rest.find_first_of("/="));
      rest.remove_prefix(std::min(name.size() + 1, rest.size()));
      const std::string shown = shown_name(name);
      // Most names need no escaping.
      if (shown != name) replace_all(message, name, shown);
    }
  }
  return message;
}

}  // namespace penstock
