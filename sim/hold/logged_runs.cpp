// Converts the arguments in a training log to a row in the file of measured runs. The arguments have
// Megatron-LM's names, for logs of all frameworks (training_log.cpp):
//
//   tensor_model_parallel_size 2, seq_length 8192, ..    arguments of the log
//   tensor 2, sequence 8192, ..                          cells, completed by those of the user
//   id,source,..,step_seconds,..,steps,step_low,..       a line of CSV
//
// Tests: tests/sim/training_log_test.cpp.

#include "sim/hold/training_log.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/scenario.hpp"
#include "text/escaping.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

using Json = nlohmann::ordered_json;

/// A reader of the arguments of a training run. It finds the value of an argument by its name.
class ArgumentReader {
 public:
  explicit ArgumentReader(const TrainingArguments& arguments) : arguments_(arguments) {}

  /// Returns the value of an argument. Returns nothing if it is missing or has a value that means "absent",
  /// such as "None" or "False".
  std::optional<std::string> text(std::string_view name) const {
    const auto found = arguments_.find(name);
    if (found == arguments_.end()) return std::nullopt;
    for (const std::string_view nothing : {"", "None", "null", "False", "false", "no"}) {
      if (found->second == nothing) return std::nullopt;
    }
    return found->second;
  }
  std::optional<std::int64_t> number(std::string_view name) const {
    const auto value = text(name);
    const auto number = value ? number_of_text<std::int64_t>(*value) : std::nullopt;
    return number && *number >= 1 ? number : std::nullopt;
  }
  std::int64_t number_or(std::string_view name, std::int64_t usual) const {
    return number(name).value_or(usual);
  }
  bool states(std::string_view name) const { return arguments_.contains(name); }
  bool flag(std::string_view name) const { return text(name).has_value(); }
  bool contains(std::string_view name, std::string_view word) const {
    const auto value = text(name);
    return value && value->find(word) != std::string::npos;
  }

 private:
  const TrainingArguments& arguments_;
};

std::string yes_or_no(bool flag) { return flag ? "yes" : "no"; }

/// Adds the sizes of the experts to a config.json. The keys are those of Mixtral, or those of Qwen3 if the
/// model has norms of queries.
void add_experts(Json& config, const ArgumentReader& arguments, std::int64_t inner) {
  const bool is_qwen = config["model_type"] == "qwen3";
  config["model_type"] = is_qwen ? "qwen3_moe" : "mixtral";
  config[is_qwen ? "num_experts" : "num_local_experts"] = arguments.number_or("num_experts", 1);
  config["num_experts_per_tok"] = arguments.number_or("moe_router_topk", 2);
  config[is_qwen ? "moe_intermediate_size" : "intermediate_size"] =
      arguments.number_or("moe_ffn_hidden_size", inner);
}

/// Returns the config.json of a model with the sizes in the arguments. Returns nothing if the arguments do
/// not describe a model completely.
std::optional<Json> config_of(const ArgumentReader& arguments) {
  const auto layers = arguments.number("num_layers");
  const auto hidden = arguments.number("hidden_size");
  const auto heads = arguments.number("num_attention_heads");
  const auto vocabulary = arguments.number("padded_vocab_size");
  if (!layers || !hidden || !heads || !vocabulary) return std::nullopt;
  // Some models have latent attention, shared experts, or some layers without experts. The arguments that are
  // read do not state all sizes of such models. `moe_layer_freq` is "1" if every layer has experts.
  const bool has_dense_layers = arguments.text("moe_layer_freq").value_or("1") != "1";
  if (arguments.flag("multi_latent_attention") || arguments.flag("moe_shared_expert_intermediate_size") ||
      (arguments.flag("num_experts") && has_dense_layers))
    return std::nullopt;
  const bool is_tied = !arguments.flag("untie_embeddings_and_output_weights");
  const std::int64_t inner = arguments.number_or("ffn_hidden_size", 4 * *hidden);
  // The name consists of the sizes, so that all logs of one model get one name and are compared with each
  // other.
  const std::string name = fmt::format("model-{}x{}", *layers, *hidden);
  if (!arguments.flag("swiglu")) {
    return Json{{"_name_or_path", name},
                {"model_type", "gpt2"},
                {"n_embd", *hidden},
                {"n_layer", *layers},
                {"n_head", *heads},
                {"n_inner", inner},
                {"n_positions", arguments.number_or("max_position_embeddings", 1)},
                {"vocab_size", *vocabulary},
                {"tie_word_embeddings", is_tied}};
  }
  const std::int64_t kv_heads =
      arguments.flag("group_query_attention") ? arguments.number_or("num_query_groups", *heads) : *heads;
  Json config = {{"_name_or_path", name},
                 {"model_type", arguments.flag("qk_layernorm")   ? "qwen3"
                                : arguments.flag("add_qkv_bias") ? "qwen2"
                                                                 : "llama"},
                 {"hidden_size", *hidden},
                 {"num_hidden_layers", *layers},
                 {"num_attention_heads", *heads},
                 {"num_key_value_heads", kv_heads},
                 {"head_dim", arguments.number_or("kv_channels", *hidden / *heads)},
                 {"intermediate_size", inner},
                 {"vocab_size", *vocabulary},
                 {"tie_word_embeddings", is_tied}};
  if (arguments.flag("num_experts")) add_experts(config, arguments, inner);
  return config;
}

void add_degrees(RunCells& cells, const ArgumentReader& arguments) {
  constexpr std::array<std::pair<const char*, const char*>, 7> kSame = {
      {{"tensor", "tensor_model_parallel_size"},
       {"stages", "pipeline_model_parallel_size"},
       {"context", "context_parallel_size"},
       {"expert", "expert_model_parallel_size"},
       {"sequence", "seq_length"},
       {"layers", "num_layers"},
       {"hidden", "hidden_size"}}};
  for (const auto& [cell, name] : kSame) {
    if (const auto value = arguments.number(name)) cells[cell] = fmt::format("{}", *value);
  }
  const std::int64_t nodes = arguments.number_or("num_nodes", 1);
  if (const auto devices = arguments.number("world_size")) {
    cells["devices"] = fmt::format("{}", *devices);
  } else if (const auto of_node = arguments.number("devices")) {
    cells["devices"] = fmt::format("{}", nodes * *of_node);
  }
  if (const auto chunks = arguments.number("virtual_pipeline_model_parallel_size")) {
    cells["virtual_stages"] = fmt::format("{}", *chunks);
  } else if (const auto layers = arguments.number("num_layers_per_virtual_pipeline_stage")) {
    const std::int64_t stages = arguments.number_or("pipeline_model_parallel_size", 1);
    cells["virtual_stages"] = fmt::format("{}", arguments.number_or("num_layers", 1) / (stages * *layers));
  }
  if (arguments.flag("use_tp_pp_dp_mapping"))
    cells["order"] = std::string(to_text(PlacementOrder::tp_cp_ep_pp_dp));
  if (arguments.flag("cp_comm_type"))
    cells["context_exchange"] = arguments.contains("cp_comm_type", "a2a") ? "all-to-all" : "ring";
}

void add_batch(RunCells& cells, const ArgumentReader& arguments) {
  if (const auto samples = arguments.number("global_batch_size"))
    cells["global_batch_size"] = fmt::format("{}", *samples);
  if (const auto samples = arguments.number("micro_batch_size"))
    cells["micro_batch_size"] = fmt::format("{}", *samples);
  // torchtitan's local batch is the batch of one copy. A pipeline divides it into microbatches of one sample,
  // unless another size is stated.
  if (const auto samples = arguments.number("local_batch_size")) {
    const bool has_pipeline = arguments.number_or("pipeline_model_parallel_size", 1) > 1;
    cells["micro_batch_size"] = fmt::format(
        "{}", has_pipeline ? arguments.number_or("pipeline_parallel_microbatch_size", 1) : *samples);
  }
}

/// Returns the cell that states the recomputation, from Megatron-LM's arguments about recomputed parts and
/// layers.
std::string recompute_of(const ArgumentReader& arguments) {
  if (arguments.contains("recompute_granularity", "full")) return "full";
  if (!arguments.flag("recompute_granularity")) return "none";
  if (arguments.contains("recompute_modules", "mlp")) return "mlp";
  if (arguments.contains("recompute_modules", "moe_act")) return "activation";
  if (arguments.contains("recompute_modules", "layernorm")) return "norm";
  return "selective";
}

/// Returns the degree of ZeRO sharding, or nothing if no argument states it.
std::optional<std::string> sharding_of(const ArgumentReader& arguments) {
  const auto strategy = arguments.text("data_parallel_sharding_strategy");
  if (strategy == "optim_grads_params") return "3";
  if (strategy == "optim_grads") return "2";
  if (strategy == "optim") return "1";
  if (arguments.states("use_distributed_optimizer"))
    return arguments.flag("use_distributed_optimizer") ? "1" : "0";
  // torchtitan shards weights unless the degree is 1. The degree -1 means that it shards them over all
  // devices.
  const auto degree = arguments.text("data_parallel_shard_degree");
  if (degree) return *degree == "1" ? "0" : "3";
  return std::nullopt;
}

void add_precision(RunCells& cells, const ArgumentReader& arguments, LogFormat format) {
  if (arguments.flag("fp4")) {
    cells["precision"] = "fp4";
  } else if (arguments.flag("fp8")) {
    cells["precision"] = "fp8";
  } else if (arguments.flag("bf16") || arguments.flag("fp16") || format == LogFormat::torchtitan) {
    // Products in fp16 are as fast as those in bf16.
    cells["precision"] = "bf16";
  }
  if (arguments.flag("grad_reduce_in_bf16")) {
    cells["gradient_bytes"] = "2";
  } else if (arguments.states("accumulate_allreduce_grads_in_fp32")) {
    cells["gradient_bytes"] = arguments.flag("accumulate_allreduce_grads_in_fp32") ? "4" : "2";
  }
}

void add_settings(RunCells& cells, const ArgumentReader& arguments) {
  if (arguments.states("recompute_granularity")) cells["recompute"] = recompute_of(arguments);
  if (arguments.states("tp_comm_overlap"))
    cells["tensor_overlap"] = yes_or_no(arguments.flag("tp_comm_overlap"));
  if (arguments.states("overlap_grad_reduce"))
    cells["data_overlap"] = yes_or_no(arguments.flag("overlap_grad_reduce"));
  if (const auto sharding = sharding_of(arguments)) cells["sharding"] = *sharding;
  if (const auto layout = arguments.text("pipeline_model_parallel_layout")) {
    cells["layer_split"] = *layout;
  } else if (arguments.flag("account_for_embedding_in_pipeline_split") &&
             arguments.flag("account_for_loss_in_pipeline_split")) {
    cells["layer_split"] = "ends-one-less";
  }
  if (arguments.flag("num_experts")) {
    if (arguments.contains("moe_token_dispatcher_type", "alltoall")) cells["expert_dispatch"] = "alltoall";
    if (arguments.contains("moe_token_dispatcher_type", "flex")) cells["expert_dispatch"] = "deepep";
    if (arguments.states("overlap_moe_expert_parallel_comm"))
      cells["expert_overlap"] = yes_or_no(arguments.flag("overlap_moe_expert_parallel_comm"));
  }
  if (const auto device = arguments.text("device")) cells["device"] = *device;
}

}  // namespace

RunCells cells_of(const TrainingArguments& arguments, LogFormat format) {
  const ArgumentReader reader(arguments);
  RunCells cells;
  cells["framework"] = format == LogFormat::torchtitan ? "torchtitan" : "megatron-te";
  add_degrees(cells, reader);
  add_batch(cells, reader);
  add_precision(cells, reader, format);
  add_settings(cells, reader);
  if (const auto config = config_of(reader)) cells["model"] = config->dump();
  if (const auto schedule = reader.text("pipeline_parallel_schedule")) cells["schedule"] = *schedule;
  return cells;
}

RunCells cells_of(const Scenario& scenario, const std::filesystem::path& model_file) {
  const DeviceModel& model = std::get<DeviceModel>(scenario.model);
  const Workload& work = model.work;
  const Parallel& parallel = work.parallel;
  RunCells cells;
  const auto number = [&](const char* cell, std::int64_t value) { cells[cell] = fmt::format("{}", value); };
  cells["model"] = model_file.string();
  cells["device"] = work.device.name;
  cells["precision"] = std::string(to_text(work.precision));
  number("hidden", work.model.hidden);
  number("devices", model.devices);
  number("tensor", parallel.tensor);
  number("context", parallel.context);
  cells["context_exchange"] = std::string(to_text(parallel.context_exchange));
  number("expert", parallel.expert);
  number("stages", scenario.shape.stages);
  number("virtual_stages", scenario.shape.virtual_stages);
  number("sequence", work.sequence);
  number("layers", static_cast<std::int64_t>(work.model.layers.size()));
  cells["schedule"] = scenario.schedule;
  cells["recompute"] = std::string(to_text(work.recompute));
  cells["tensor_overlap"] = yes_or_no(parallel.tensor_overlap);
  cells["data_overlap"] = yes_or_no(parallel.data_overlap);
  cells["order"] = std::string(to_text(parallel.order));
  number("gradient_bytes", work.gradient_bytes);
  number("sharding", scenario.shape.sharding.value_or(parallel.sharding));
  if (model.split.rule != LayerSplit::Rule::unstated) cells["layer_split"] = to_text(model.split);
  const std::int64_t of_copy = std::int64_t{parallel.devices_per_rank()} * scenario.shape.stages;
  const std::int64_t copies = model.copies.value_or(static_cast<std::int32_t>(model.devices / of_copy));
  const Batch& batch = scenario.batch;
  if (batch.micro_batch_size) number("micro_batch_size", *batch.micro_batch_size);
  if (batch.global_batch_size) {
    number("global_batch_size", *batch.global_batch_size);
  } else if (batch.microbatches) {
    number("global_batch_size", batch.micro_batch_size.value_or(1) * *batch.microbatches * copies);
  }
  return cells;
}

// --- rows -------------------------------------------------------------------------------------------------

namespace {

/// A cell that a row needs, and the flag with which the user states it if the log does not.
struct NeededCell {
  const char* name;
  const char* looked_for;
  const char* flag;
};
constexpr auto kNeeded = std::to_array<NeededCell>(
    {{"model", "num_layers, hidden_size, num_attention_heads and padded_vocab_size", "--model FILE"},
     {"device", "CUDA capacity", "--device NAME"},
     {"precision", "bf16, fp16, fp8 or fp4", "--precision WORD"},
     {"devices", "world_size, num_nodes and devices, or a device mesh", "--nodes N"},
     {"sequence", "seq_length, encoder_seq_length, seq_len or max_sequence_length", "--sequence N"},
     {"micro_batch_size", "micro_batch_size or local_batch_size", "--micro-batch-size N"},
     {"global_batch_size", "global_batch_size or \"global batch size\"", "--global-batch-size N"}});

/// The cells that may be absent from both the log and the user's flags, with their usual values.
constexpr auto kUsual = std::to_array<std::pair<const char*, const char*>>(
    {{"tensor", "1"}, {"stages", "1"}, {"recompute", "none"}});

tl::expected<void, std::string> check_complete(const RunCells& cells, const std::string& file) {
  std::vector<std::string> missing;
  for (const NeededCell& one : kNeeded) {
    if (!cells.contains(one.name))
      missing.push_back(fmt::format("{} (looked for {}; {} states it)", one.name, one.looked_for, one.flag));
  }
  if (missing.empty()) return {};
  return tl::unexpected(
      fmt::format("{}: the log has times of steps, but neither it nor --config nor a flag states:\n  {}",
                  file, fmt::join(missing, "\n  ")));
}

/// Returns the whole number in a cell, or nothing if the cell has no number of at least 1.
std::optional<std::int64_t> count_of(const RunCells& cells, std::string_view name) {
  const auto found = cells.find(name);
  if (found == cells.end()) return std::nullopt;
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const auto number = number_of_text<std::int64_t>(found->second);
  return number && *number >= 1 && *number <= kMost ? number : std::nullopt;
}

/// Sets the number of copies, and the number of microbatches of each copy. Both are computed from the
/// number of devices and the batch size.
tl::expected<void, std::string> set_microbatches(RunCells& cells, const std::string& file) {
  const std::int64_t devices = count_of(cells, "devices").value_or(1);
  const std::int64_t of_copy = count_of(cells, "tensor").value_or(1) *
                               count_of(cells, "context").value_or(1) * count_of(cells, "stages").value_or(1);
  if (devices % of_copy != 0) {
    return tl::unexpected(
        fmt::format("{}: expected devices that are a multiple of tensor x context x stages = {}, got {}",
                    file, of_copy, devices));
  }
  const std::int64_t copies = devices / of_copy;
  const std::int64_t samples = count_of(cells, "global_batch_size").value_or(1);
  const std::int64_t of_microbatch = copies * count_of(cells, "micro_batch_size").value_or(1);
  if (samples % of_microbatch != 0) {
    return tl::unexpected(fmt::format(
        "{}: expected a global batch that is a multiple of copies x micro_batch_size = {}, got {}", file,
        of_microbatch, samples));
  }
  cells["data"] = fmt::format("{}", copies);
  cells["microbatches"] = fmt::format("{}", samples / of_microbatch);
  return {};
}

/// Returns the cells of the log, together with the cells that only the user states. If both state a cell, the
/// value in the log is used, and a note names the difference. For `model` and `device`, the user's value is
/// used.
tl::expected<RunCells, std::string> merged(const TrainingLog& log, const RunCells& stated,
                                           std::vector<std::string>& notes) {
  RunCells cells = cells_of(log.arguments, log.format);
  std::vector<std::string> differences;
  for (const auto& [name, value] : stated) {
    const auto own = cells.find(name);
    if (own == cells.end()) {
      cells[name] = value;
    } else if (name == "hidden" && own->second != value) {
      return tl::unexpected(fmt::format("{}: the log trains a model of width {}, and the stated model has {}",
                                        log.file, own->second, value));
    } else if (name == "model" || name == "device") {
      own->second = value;
    } else if (own->second != value) {
      differences.push_back(fmt::format("{} {} (not {})", name, own->second, value));
    }
  }
  if (!differences.empty()) {
    notes.push_back(fmt::format("{}: the log counts where it differs from what is stated: {}", log.file,
                                fmt::join(differences, ", ")));
  }
  return cells;
}

/// The columns of a row in their order in the file.
constexpr auto kColumns = std::to_array<std::string_view>({"id",
                                                           "source",
                                                           "framework",
                                                           "model",
                                                           "device",
                                                           "precision",
                                                           "devices",
                                                           "tensor",
                                                           "stages",
                                                           "virtual_stages",
                                                           "context",
                                                           "context_exchange",
                                                           "expert",
                                                           "data",
                                                           "order",
                                                           "micro_batch_size",
                                                           "microbatches",
                                                           "sequence",
                                                           "layers",
                                                           "layer_split",
                                                           "schedule",
                                                           "recompute",
                                                           "tensor_overlap",
                                                           "data_overlap",
                                                           "sharding",
                                                           "expert_dispatch",
                                                           "expert_overlap",
                                                           "gradient_bytes",
                                                           "step_seconds",
                                                           "peak_gib",
                                                           "steps",
                                                           "step_low",
                                                           "step_high"});

}  // namespace

tl::expected<LoggedRun, std::string> logged_run(const TrainingLog& log, const RunCells& stated) {
  LoggedRun run;
  auto cells = merged(log, stated, run.notes);
  if (!cells) return tl::unexpected(cells.error());
  run.cells = *std::move(cells);
  for (const auto& [name, value] : kUsual) run.cells.emplace(name, value);
  const bool has_chunks = count_of(run.cells, "virtual_stages").value_or(1) > 1;
  const auto overlap = run.cells.find("expert_overlap");
  const bool in_pairs = overlap != run.cells.end() && overlap->second == "yes";
  run.cells.emplace("schedule", !has_chunks ? "1f1b" : (in_pairs ? "ep-1f1b" : "interleaved"));
  if (auto complete = check_complete(run.cells, log.file); !complete) return tl::unexpected(complete.error());
  if (auto set = set_microbatches(run.cells, log.file); !set) return tl::unexpected(set.error());
  run.times =
      step_times(log, {.samples = static_cast<double>(count_of(run.cells, "global_batch_size").value_or(1)),
                       .tokens_per_sample = static_cast<double>(count_of(run.cells, "sequence").value_or(1)),
                       .devices = static_cast<double>(count_of(run.cells, "devices").value_or(1))});
  if (!run.times.note.empty()) run.notes.push_back(run.times.note);
  run.cells["id"] = std::filesystem::path(log.file).stem().string();
  run.cells["source"] = "log";
  run.cells["step_seconds"] = fmt::format("{:.6g}", run.times.median);
  run.cells["steps"] = fmt::format("{}", run.times.steps);
  run.cells["step_low"] = fmt::format("{:.6g}", run.times.low);
  run.cells["step_high"] = fmt::format("{:.6g}", run.times.high);
  if (log.peak_gib) run.cells["peak_gib"] = fmt::format("{:.4f}", *log.peak_gib);
  return run;
}

std::string logged_runs_csv(std::span<const LoggedRun> runs, const std::filesystem::path& directory) {
  std::string text = fmt::format("{}\n", fmt::join(kColumns, ","));
  for (const LoggedRun& run : runs) {
    std::vector<std::string> cells;
    for (const std::string_view column : kColumns) {
      const auto found = run.cells.find(column);
      std::string cell = found == run.cells.end() ? "" : found->second;
      // A model is a file, the text of a config.json, or a name of the library.
      if (column == "model" && !cell.starts_with('{') && !is_library_config(cell, cell)) {
        cell =
            std::filesystem::proximate(std::filesystem::absolute(cell), std::filesystem::absolute(directory))
                .string();
      }
      cells.push_back(csv_field(cell));
    }
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

}  // namespace penstock
