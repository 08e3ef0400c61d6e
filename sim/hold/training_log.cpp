// Reads logs of training runs line by line. In each format, one line reports a step, or all steps since
// the previous such line (figures shortened):
//
//   Megatron-LM  iteration  20/ 100 | consumed samples: 2560 | elapsed time per iteration (ms): 5361.6 | ..
//   NeMo         .. global_step: 17 | reduced_train_loss: 11.03 | train_step_timing in s: 6.05 | ..
//                .. 4/100 [00:30<12:07, global_step=3.000, train_step_timing in s=5.700]
//   torchtitan   .. step: 20  loss: 8.38  grad_norm: 1.2  memory: 49.59GiB(35.46%)  tps: 7,080  tflops: ..
//   MLPerf       :::MLLOG {.., "key": "tracked_stats", "value": {"throughput": 30.7}, "metadata": {"step":
//   172032}}
//
// torchtitan's `tps` is the number of tokens per second and device. MLPerf's throughput is in samples per
// second, or in tokens per second for GPT-3. The batch size of the run converts these rates to times. All
// other lines are searched for arguments, from which logged_runs.cpp makes a configuration. Tests:
// tests/sim/training_log_test.cpp.

#include "sim/hold/training_log.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <iostream>
#include <istream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

using LogRecord = nlohmann::json;

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Returns the position of a name in a line, or npos. A position inside a longer name does not count.
std::size_t place_of_name(std::string_view line, std::string_view name) {
  for (std::size_t at = line.find(name); at != std::string_view::npos; at = line.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool begins = at == 0 || !is_letter(line[at - 1]);
    const bool ends = end == line.size() || !is_letter(line[end]) || !is_letter(name.back());
    if (begins && ends) return at;
  }
  return std::string_view::npos;
}

/// Returns the rest of a line after a name, beginning with the value. Blanks, colons, equals signs, quotes
/// and dots before the value are removed. Returns nothing if the line does not contain the name.
std::optional<std::string_view> after_name(std::string_view line, std::string_view name) {
  const std::size_t at = place_of_name(line, name);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(at + name.size());
  const std::size_t begin = rest.find_first_not_of(" \t.:=\"'");
  return rest.substr(std::min(begin, rest.size()));
}

/// Returns the number after a name. Commas between its digits are ignored, as in "10,050".
std::optional<double> number_after(std::string_view line, std::string_view name) {
  const auto rest = after_name(line, name);
  if (!rest) return std::nullopt;
  std::string digits;
  for (std::size_t i = 0; i < rest->size() && digits.size() < 40; ++i) {
    const char c = (*rest)[i];
    const bool separates =
        c == ',' && i + 1 < rest->size() && std::isdigit(static_cast<unsigned char>((*rest)[i + 1])) != 0;
    if (!separates) digits.push_back(c);
  }
  const auto number = leading_number<double>(digits).value;
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::int64_t whole_after(std::string_view line, std::string_view name) {
  const double value = number_after(line, name).value_or(0);
  constexpr double kMost = 1e15;
  return static_cast<std::int64_t>(std::clamp(value, 0.0, kMost));
}

// --- arguments --------------------------------------------------------------------------------------------

/// A spelling of an argument in logs. `name` is the argument's name in Megatron-LM.
struct Spelling {
  std::string_view spelling;
  std::string_view name;
  /// True if the word is so common that it is an argument only at the start of a line.
  bool starts_line = false;
};
/// The arguments on which the time of a step depends. NeMo and Megatron-LM share most names. The last ones
/// are those of torchtitan and of MLPerf's lines.
constexpr auto kSpellings = std::to_array<Spelling>({
    {"world_size", "world_size"},
    {"world size", "world_size"},
    {"num_nodes", "num_nodes"},
    {"devices", "devices", true},
    {"tensor_model_parallel_size", "tensor_model_parallel_size"},
    {"pipeline_model_parallel_size", "pipeline_model_parallel_size"},
    {"virtual_pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size"},
    {"num_layers_per_virtual_pipeline_stage", "num_layers_per_virtual_pipeline_stage"},
    {"context_parallel_size", "context_parallel_size"},
    {"cp_comm_type", "cp_comm_type"},
    {"expert_model_parallel_size", "expert_model_parallel_size"},
    {"use_tp_pp_dp_mapping", "use_tp_pp_dp_mapping"},
    {"micro_batch_size", "micro_batch_size"},
    {"global_batch_size", "global_batch_size"},
    {"seq_length", "seq_length"},
    {"encoder_seq_length", "seq_length"},
    {"max_sequence_length", "seq_length"},
    {"num_layers", "num_layers"},
    {"hidden_size", "hidden_size"},
    {"ffn_hidden_size", "ffn_hidden_size"},
    {"num_attention_heads", "num_attention_heads"},
    {"group_query_attention", "group_query_attention"},
    {"num_query_groups", "num_query_groups"},
    {"kv_channels", "kv_channels"},
    {"padded_vocab_size", "padded_vocab_size"},
    {"swiglu", "swiglu"},
    {"position_embedding_type", "position_embedding_type"},
    {"max_position_embeddings", "max_position_embeddings"},
    {"untie_embeddings_and_output_weights", "untie_embeddings_and_output_weights"},
    {"normalization", "normalization"},
    {"add_bias_linear", "add_bias_linear"},
    {"add_qkv_bias", "add_qkv_bias"},
    {"qk_layernorm", "qk_layernorm"},
    {"multi_latent_attention", "multi_latent_attention"},
    {"num_experts", "num_experts"},
    {"moe_router_topk", "moe_router_topk"},
    {"moe_ffn_hidden_size", "moe_ffn_hidden_size"},
    {"moe_shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"},
    {"moe_layer_freq", "moe_layer_freq"},
    {"moe_token_dispatcher_type", "moe_token_dispatcher_type"},
    {"overlap_moe_expert_parallel_comm", "overlap_moe_expert_parallel_comm"},
    {"mtp_num_layers", "mtp_num_layers"},
    {"bf16", "bf16"},
    {"fp16", "fp16"},
    {"fp8", "fp8"},
    {"fp8_format", "fp8"},
    {"fp4", "fp4"},
    {"fp4_format", "fp4"},
    {"recompute_granularity", "recompute_granularity"},
    {"activations_checkpoint_granularity", "recompute_granularity"},
    {"recompute_modules", "recompute_modules"},
    {"tp_comm_overlap", "tp_comm_overlap"},
    {"ub_tp_comm_overlap", "tp_comm_overlap"},
    {"overlap_grad_reduce", "overlap_grad_reduce"},
    {"overlap_grad_sync", "overlap_grad_reduce"},
    {"use_distributed_optimizer", "use_distributed_optimizer"},
    {"data_parallel_sharding_strategy", "data_parallel_sharding_strategy"},
    {"accumulate_allreduce_grads_in_fp32", "accumulate_allreduce_grads_in_fp32"},
    {"grad_reduce_in_bf16", "grad_reduce_in_bf16"},
    {"account_for_embedding_in_pipeline_split", "account_for_embedding_in_pipeline_split"},
    {"account_for_loss_in_pipeline_split", "account_for_loss_in_pipeline_split"},
    {"pipeline_model_parallel_layout", "pipeline_model_parallel_layout"},
    {"tensor_parallel_degree", "tensor_model_parallel_size"},
    {"pipeline_parallel_degree", "pipeline_model_parallel_size"},
    {"context_parallel_degree", "context_parallel_size"},
    {"expert_parallel_degree", "expert_model_parallel_size"},
    {"pipeline_parallel_schedule", "pipeline_parallel_schedule"},
    {"pipeline_parallel_microbatch_size", "pipeline_parallel_microbatch_size"},
    {"data_parallel_shard_degree", "data_parallel_shard_degree"},
    {"dp_shard", "data_parallel_shard_degree"},
    {"local_batch_size", "local_batch_size"},
    {"local batch size", "local_batch_size"},
    {"global batch size", "global_batch_size"},
    {"sequence length", "seq_length"},
    {"seq_len", "seq_length"},
    {"CUDA capacity", "device"},
});

/// Returns the line with '_' in place of each '-' inside a name. For example, "--seq-length" becomes
/// "--seq_length".
std::string with_underscores(std::string_view line) {
  std::string text(line);
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    const bool is_inside = std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0 &&
                           std::isalpha(static_cast<unsigned char>(text[i + 1])) != 0;
    if (text[i] == '-' && is_inside) text[i] = '_';
  }
  return text;
}

/// Returns the value at the start of a text: a list in brackets, or all characters up to a blank or a
/// delimiter. If a command-line argument has no value, it is "True".
std::string value_of(std::string_view text) {
  if (text.starts_with('[')) return std::string(text.substr(0, text.find(']') + 1));
  const std::string_view value = text.substr(0, text.find_first_of(" \t,)}\"'|"));
  if (value.empty() || value == "\\" || value.starts_with("--")) return "True";
  return std::string(value);
}

/// Reads and stores the degrees of torchtitan's device mesh. Two forms are known: "Building 2-D device mesh
/// with ['dp', 'tp'], [4, 2]", and "device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=4, cp=1,
/// tp=2, ep=1".
void add_mesh(std::string_view line, TrainingArguments& arguments) {
  const std::size_t at = line.find("device mesh with");
  if (at == std::string_view::npos) return;
  const std::string_view mesh = line.substr(at);
  std::vector<std::string> names;
  std::vector<std::int64_t> degrees;
  std::string word;
  for (const char c : std::string(mesh) + ' ') {
    if (is_letter(c)) {
      word.push_back(c);
    } else if (!word.empty()) {
      if (const auto number = number_of_text<std::int64_t>(word)) {
        degrees.push_back(*number);
      } else if (word.starts_with("dp") || word == "tp" || word == "pp" || word == "cp" || word == "ep") {
        names.push_back(word);
      }
      word.clear();
    }
  }
  if (names.empty() || names.size() > degrees.size()) return;
  std::int64_t devices = 1;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    // Experts are spread over the devices of the other groups.
    if (name != "ep") devices *= degrees[i];
    const std::string degree = fmt::format("{}", degrees[i]);
    if (name == "tp") arguments.emplace("tensor_model_parallel_size", degree);
    if (name == "pp") arguments.emplace("pipeline_model_parallel_size", degree);
    if (name == "cp") arguments.emplace("context_parallel_size", degree);
    if (name == "ep") arguments.emplace("expert_model_parallel_size", degree);
    if (name == "dp_shard") arguments.emplace("data_parallel_shard_degree", degree);
  }
  arguments.emplace("world_size", fmt::format("{}", devices));
}

void add_arguments(std::string_view line, TrainingArguments& arguments) {
  // Each argument has one of these characters, and many lines of a log have none of them.
  if (line.find_first_of("_-:=.") == std::string_view::npos) return;
  add_mesh(line, arguments);
  // torchtitan: "Applied selective activation checkpointing to the model".
  const auto applied = after_name(line, "Applied");
  if (applied && applied->find(" activation checkpointing") != std::string_view::npos)
    arguments.emplace("recompute_granularity", value_of(*applied));
  const std::string text = with_underscores(line);
  const std::size_t first = text.find_first_not_of(" \t-");
  for (const Spelling& one : kSpellings) {
    if (one.starts_line && text.find(one.spelling) != first) continue;
    const auto value = after_name(text, one.spelling);
    if (!value) continue;
    // A name without a separator behind it is not an argument, as in "world_size(0)". A name without a value
    // is an argument only on a command line.
    const char before = text[static_cast<std::size_t>(value->data() - text.data()) - 1];
    const bool is_flag = text.starts_with("--") || text.find(" --") != std::string::npos;
    if ((!value->empty() && is_letter(before)) || (value->empty() && !is_flag)) continue;
    // The name of a GPU has blanks: "NVIDIA H100 80GB HBM3 with 79.10GiB memory".
    arguments.emplace(one.name, one.name == "device" ? std::string(value->substr(0, value->find(" with")))
                                                     : value_of(*value));
  }
}

// --- lines of steps ---------------------------------------------------------------------------------------

/// Returns MLPerf's event in a line, or nothing if the line has none.
std::optional<LogRecord> event_of(std::string_view line) {
  constexpr std::string_view kMark = ":::MLLOG ";
  const std::size_t at = line.find(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  LogRecord event = LogRecord::parse(line.substr(at + kMark.size()), nullptr, false);
  if (!event.is_object() || !event.contains("key") || !event["key"].is_string()) return std::nullopt;
  return event;
}

std::optional<double> number_in(const LogRecord& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number()) return std::nullopt;
  return object[key].get<double>();
}

/// Reads an event of MLPerf. It is either the rate since the previous such event, or an argument.
std::optional<LoggedSteps> mlperf_steps(const LogRecord& event, TrainingArguments& arguments) {
  const auto key = event["key"].get<std::string>();
  const LogRecord value = event.contains("value") ? event["value"] : LogRecord();
  if (key != "tracked_stats") {
    for (const Spelling& one : kSpellings) {
      if (one.spelling == key && value.is_number())
        arguments.emplace(one.name, fmt::format("{:.0f}", value.get<double>()));
    }
    return std::nullopt;
  }
  const auto rate = number_in(value, "throughput");
  if (!rate) return std::nullopt;
  const LogRecord data = event.contains("metadata") ? event["metadata"] : LogRecord();
  auto last = number_in(data, "step");
  if (!last) last = number_in(data, "samples_count");
  return LoggedSteps{.last = static_cast<std::int64_t>(last.value_or(0)), .figure = *rate};
}

constexpr double kMillisecondsPerSecond = 1e3;

/// Returns the steps that a line reports, in one of the formats that are not JSON. Returns nothing if the
/// line reports none.
std::optional<LoggedSteps> steps_of(LogFormat format, std::string_view line) {
  switch (format) {
    case LogFormat::megatron: {
      const auto time = number_after(line, "elapsed time per iteration (ms)");
      if (!time) return std::nullopt;
      return LoggedSteps{.last = whole_after(line, "iteration"), .figure = *time / kMillisecondsPerSecond};
    }
    case LogFormat::nemo: {
      const auto time = number_after(line, "train_step_timing in s");
      if (!time) return std::nullopt;
      return LoggedSteps{.last = whole_after(line, "global_step"), .figure = *time};
    }
    case LogFormat::torchtitan: {
      // In logs of 2024, torchtitan calls the rate wps.
      auto rate = number_after(line, "tps");
      if (!rate) rate = number_after(line, "wps");
      if (!rate || place_of_name(line, "step:") == std::string_view::npos) return std::nullopt;
      return LoggedSteps{.last = whole_after(line, "step:"), .figure = *rate};
    }
    case LogFormat::mlperf:
      return std::nullopt;
  }
  return std::nullopt;
}

/// Reads the peak of Megatron-LM's memory allocator from a line: "memory (MB) | allocated: .. | max
/// allocated: 62345.1 | ..".
std::optional<double> peak_of(std::string_view line) {
  if (line.find("memory (MB)") == std::string_view::npos) return std::nullopt;
  constexpr double kMebibytesPerGibibyte = 1024;
  auto peak = number_after(line, "max allocated");
  if (peak) *peak /= kMebibytesPerGibibyte;
  return peak;
}

/// Returns the line without the sequences that colour a terminal (ESC [ .. m).
std::string without_colours(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      const std::size_t end = line.find('m', i);
      if (end != std::string_view::npos) {
        i = end;
        continue;
      }
    }
    text.push_back(line[i]);
  }
  return text;
}

/// A collector of the steps and arguments in the lines of a log.
class LogReader {
 public:
  void read(std::string_view line) {
    if (const auto event = event_of(line)) {
      if (const auto steps = mlperf_steps(*event, arguments_)) add(LogFormat::mlperf, *steps);
      return;
    }
    for (const LogFormat format : {LogFormat::megatron, LogFormat::nemo, LogFormat::torchtitan}) {
      const auto steps = steps_of(format, line);
      if (!steps) continue;
      add(format, *steps);
      if (const auto batch = after_name(line, "global batch size")) last_batch_ = value_of(*batch);
      return;
    }
    if (const auto peak = peak_of(line)) peak_gib_ = std::max(peak_gib_.value_or(0), *peak);
    add_arguments(line, arguments_);
  }

  tl::expected<TrainingLog, std::string> log(const std::string& file) && {
    // Megatron-LM prints the batch with each step, too. The last one is used, because batches may grow.
    if (!last_batch_.empty()) arguments_.emplace("global_batch_size", last_batch_);
    for (std::size_t format = 0; format < lines_.size(); ++format) {
      if (lines_[format].empty()) continue;
      return TrainingLog{.file = file,
                         .format = static_cast<LogFormat>(format),
                         .lines = std::move(lines_[format]),
                         .arguments = std::move(arguments_),
                         .peak_gib = peak_gib_};
    }
    return tl::unexpected(fmt::format(
        "{}: expected lines with the time of a step, found none; looked for \"elapsed time per iteration "
        "(ms): 5361.6\" (Megatron-LM), \"train_step_timing in s: 6.05\" (NeMo), \"step: 20 .. tps: 7,080\" "
        "(torchtitan) and \":::MLLOG\" with \"tracked_stats\" and \"throughput\" (MLPerf)",
        file));
  }

 private:
  void add(LogFormat format, const LoggedSteps& steps) {
    if (steps.figure <= 0) return;
    std::vector<LoggedSteps>& lines = lines_[static_cast<std::size_t>(format)];
    // Several ranks may print one step, and a progress bar prints a step repeatedly until the next one has
    // ended. Such repetitions are left out.
    const bool is_again = !lines.empty() && steps.last != 0 && lines.back().last == steps.last;
    if (!is_again) lines.push_back(steps);
  }

  std::array<std::vector<LoggedSteps>, kEnumWords<LogFormat>.size()> lines_;
  TrainingArguments arguments_;
  std::string last_batch_;
  std::optional<double> peak_gib_;
};

/// Calls `body` with each line. A line may also end with a carriage return, as a progress bar's lines do.
template <typename Body>
void for_each_line(std::istream& text, const Body& body) {
  std::string line;
  while (std::getline(text, line)) {
    std::size_t begin = 0;
    while (begin <= line.size()) {
      const std::size_t end = std::min(line.find('\r', begin), line.size());
      body(without_colours(std::string_view(line).substr(begin, end - begin)));
      begin = end + 1;
    }
  }
}

}  // namespace

tl::expected<TrainingLog, std::string> read_training_log(std::istream& text, const std::string& file) {
  LogReader reader;
  for_each_line(text, [&](const std::string& line) { reader.read(line); });
  return std::move(reader).log(file);
}

tl::expected<TrainingLog, std::string> read_training_log(const std::string& file) {
  std::ifstream opened;
  if (file != kStandardInput) opened.open(file, std::ios::binary);
  std::istream& text = file == kStandardInput ? std::cin : opened;
  // A directory can be opened but not read, so peek() tests if the file has a first character.
  if (!text || text.peek() == std::istream::traits_type::eof())
    return tl::unexpected(fmt::format("{}: expected a log that can be read and is not empty", file));
  return read_training_log(text, file);
}

TrainingArguments arguments_of(std::string_view text) {
  TrainingArguments arguments;
  std::istringstream stream{std::string(text)};
  for_each_line(stream, [&](const std::string& line) { add_arguments(line, arguments); });
  return arguments;
}

// --- times ------------------------------------------------------------------------------------------------

namespace {

/// Returns the size of a step in tokens or samples, depending on what an MLPerf log counts. It counts tokens
/// if all its counts are multiples of the tokens of a step.
double units_of_step(const TrainingLog& log, const StepSize& size) {
  const double tokens = size.samples * size.tokens_per_sample;
  const bool counts_tokens = std::ranges::all_of(log.lines, [&](const LoggedSteps& line) {
    return line.last > 0 && std::fmod(static_cast<double>(line.last), tokens) == 0;
  });
  return counts_tokens ? tokens : size.samples;
}

/// Returns the seconds of a step. `figure` is the number in the log. For logs of MLPerf, `units` is the
/// result of units_of_step().
double seconds_of(LogFormat format, double figure, const StepSize& size, double units) {
  switch (format) {
    case LogFormat::megatron:
    case LogFormat::nemo:
      return figure;
    case LogFormat::torchtitan:
      return size.samples * size.tokens_per_sample / (figure * size.devices);
    case LogFormat::mlperf:
      return units / figure;
  }
  return figure;
}

/// Returns the value below which the fraction `part` of the sorted values lies, such as the median for 0.5.
double quantile_of(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

/// Returns, for each line of the log, the number of steps since the previous line. The first line, and the
/// first one after a restart, have no previous line. They get the number of steps of the next line, or their
/// own step number if it is smaller.
std::vector<std::int64_t> steps_of_lines(const std::vector<LoggedSteps>& lines, double units) {
  std::vector<std::int64_t> counts;
  const auto between = [&](std::size_t later) {
    const auto difference = static_cast<double>(lines[later].last - lines[later - 1].last);
    return static_cast<std::int64_t>(std::llround(difference / units));
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::int64_t count = i > 0 ? between(i) : 0;
    if (count <= 0) {
      const auto own = static_cast<std::int64_t>(static_cast<double>(lines[i].last) / units);
      count = i + 1 < lines.size() ? std::min(between(i + 1), own) : own;
    }
    counts.push_back(std::max<std::int64_t>(1, count));
  }
  return counts;
}

}  // namespace

StepTimes step_times(const TrainingLog& log, const StepSize& size) {
  const double units = log.format == LogFormat::mlperf ? units_of_step(log, size) : 1;
  const std::vector<std::int64_t> counts = steps_of_lines(log.lines, units);
  StepTimes times;
  std::vector<double> seconds;
  std::int64_t before = 0;  // number of steps between the start or the last restart and the line
  for (std::size_t i = 0; i < log.lines.size(); ++i) {
    const bool is_restart = i > 0 && log.lines[i].last < log.lines[i - 1].last;
    if (is_restart) before = 0;
    if (before >= kWarmupSteps) {
      seconds.push_back(seconds_of(log.format, log.lines[i].figure, size, units));
      times.steps += counts[i];
    } else {
      times.dropped += counts[i];
    }
    before += counts[i];
  }
  if (seconds.empty()) {
    const std::size_t first = log.lines.size() > 1 ? 1 : 0;
    times.dropped = first > 0 ? counts.front() : 0;
    for (std::size_t i = first; i < log.lines.size(); ++i) {
      seconds.push_back(seconds_of(log.format, log.lines[i].figure, size, units));
      times.steps += counts[i];
    }
    times.note = fmt::format(
        "{}: no line begins after the first {} steps, so only {} of {} steps are dropped and the "
        "time may contain warm-up",
        log.file, kWarmupSteps, times.dropped, times.dropped + times.steps);
  }
  std::ranges::sort(seconds);
  constexpr double kTenth = 0.1;
  times.median = quantile_of(seconds, 0.5);
  times.low = quantile_of(seconds, kTenth);
  times.high = quantile_of(seconds, 1 - kTenth);
  return times;
}

}  // namespace penstock
