// Recognises files that are not scenarios. A YAML parser's message about such a file is correct, but it
// does not help the user. For example, the parser calls a section of TOML a second document. Three checks
// are made:
//
//   bytes      not text: the file begins like a compressed file, or some bytes are zero
//   text       not YAML: the first line is a section or `key = value` (TOML), a command or an option (shell)
//   document   YAML or JSON with the keys of another program's configuration
//
// The messages name `penstock import`, or Penstock's flags for the same figures. flags.hpp in cli/ has
// the flags of other programs.

#include "scenarios/read/quantities.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "scenarios/read/document.hpp"
#include "text/numbers.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

// --- bytes ----------------------------------------------------------------------------------------------

struct FileBeginning {
  std::string_view bytes;
  std::string_view form;
};

constexpr std::array<FileBeginning, 10> kFileBeginnings = {
    {{"\x1f\x8b", "a file that gzip has compressed; unpack it first (gunzip)"},
     {"\x28\xb5\x2f\xfd", "a file that zstd has compressed; unpack it first (unzstd)"},
     {"BZh", "a file that bzip2 has compressed; unpack it first (bunzip2)"},
     {"\xfd\x37zXZ", "a file that xz has compressed; unpack it first (unxz)"},
     {"PK\x03\x04", "a zip archive, as PyTorch's checkpoints are; give the file in it that is text"},
     {"%PDF-", "a PDF"},
     {"SQLite format 3", "a database of SQLite, as profilers write; export it as text first"},
     {"\x7f\x45LF", "a program of this machine"},
     {"\xff\xfe", "a text in UTF-16; save it as UTF-8"},
     {"\xfe\xff", "a text in UTF-16; save it as UTF-8"}}};

// --- text -----------------------------------------------------------------------------------------------

constexpr std::string_view kTaken =
    "a scenario is YAML or JSON with the parts model, cluster, schedule and training";

constexpr std::string_view kImport = "`penstock import FILE -o scenario.yaml` makes a scenario of it";

std::string_view trimmed_line(std::string_view line) {
  const std::size_t first = std::min(line.find_first_not_of(" \t\r"), line.size());
  line.remove_prefix(first);
  return line.substr(0, line.find_last_not_of(" \t\r") + 1);
}

/// Removes the next line from `text` and returns it.
std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

/// Returns the first line that is neither blank nor a comment, without the blanks around it.
std::string_view first_statement(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = trimmed_line(next_line(text));
    if (!line.empty() && line.front() != '#') return line;
  }
  return {};
}

/// Returns true for a section line of TOML, such as "[parallelism]" or "[[stage]]".
bool is_section(std::string_view line) {
  if (!line.starts_with('[') || !line.ends_with(']')) return false;
  return std::ranges::all_of(line, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("[]._-\" '").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

/// Returns the key of a line "key = value". Returns an empty text for any other line.
std::string_view assigned_key(std::string_view line) {
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos) return {};
  const std::string_view key = trimmed_line(line.substr(0, equals));
  const bool is_key = std::ranges::all_of(key, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("._-\"").find(static_cast<char>(c)) != std::string_view::npos;
  });
  return is_key && !key.starts_with('-') ? key : std::string_view{};
}

bool has_assignment(std::string_view text) {
  while (!text.empty()) {
    if (!assigned_key(trimmed_line(next_line(text))).empty()) return true;
  }
  return false;
}

/// Returns true for a line of a shell script, such as a command, its continuation, or NAME=VALUE without
/// blanks.
bool is_of_shell(std::string_view line) {
  constexpr std::array<std::string_view, 16> kCommands = {
      "export", "set",  "source",    "cd",     "torchrun", "python",     "python3", "srun",
      "mpirun", "exec", "deepspeed", "sbatch", "if",       "accelerate", "echo",    "module"};
  const std::string_view word = line.substr(0, line.find_first_of(" \t"));
  if (std::ranges::find(kCommands, word) != kCommands.end() && word.size() < line.size()) return true;
  if (line.starts_with("--") && line.size() > 2 && std::isalpha(static_cast<unsigned char>(line[2])) != 0)
    return true;
  if (line.ends_with('\\') || line.find("$(") != std::string_view::npos ||
      line.find("${") != std::string_view::npos)
    return true;
  const std::string_view key = assigned_key(line);
  const bool is_variable = !key.empty() && std::ranges::all_of(key, [](unsigned char c) {
    return std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_';
  });
  return is_variable && key.size() < line.size() && line[key.size()] == '=';
}

bool is_of_python(std::string_view line) {
  return line.starts_with("import ") || line.starts_with("def ") || line.starts_with("class ") ||
         (line.starts_with("from ") && line.find(" import ") != std::string_view::npos);
}

// --- documents ------------------------------------------------------------------------------------------

struct Configuration {
  std::string_view program;
  /// Keys that identify the program (one is enough); unused entries are empty.
  std::array<std::string_view, 5> telling;
  /// The flags of Penstock that take the figures of this configuration. Empty if `penstock import` can read
  /// the configuration.
  std::string_view flags;
};

constexpr std::array<Configuration, 8> kConfigurations = {{
    // GPT-NeoX also has keys of DeepSpeed, so it comes before it.
    {.program = "GPT-NeoX",
     .telling = {"pipe_parallel_size", "pipe-parallel-size", "model_parallel_size", "model-parallel-size",
                 ""},
     .flags = "--schedule 1f1b --pp-size (pipe_parallel_size) --tensor-parallel (model_parallel_size) "
              "--micro-batch-size (train_micro_batch_size_per_gpu) --num-microbatches "
              "(gradient_accumulation_steps)"},
    {.program = "DeepSpeed",
     .telling = {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
                 "zero_optimization", ""},
     .flags = ""},
    {.program = "nanotron", .telling = {"tokens", "parallelism", "data_stages", "", ""}, .flags = ""},
    {.program = "Megatron",
     .telling = {"MODEL_ARGS", "ENV_VARS", "pipeline_model_parallel_size", "tensor_model_parallel_size",
                 "num_layers_per_virtual_pipeline_stage"},
     .flags = ""},
    {.program = "NeMo",
     .telling = {"trainer", "exp_manager", "", "", ""},
     .flags = "--schedule 1f1b or interleaved, --pipeline-model-parallel-size --tensor-model-parallel-size "
              "--micro-batch-size --global-batch-size, which are its names"},
    {.program = "Accelerate",
     .telling = {"distributed_type", "compute_environment", "num_machines", "", ""},
     .flags = "--schedule NAME --pp-size K --num-microbatches M --nodes (num_machines)"},
    {.program = "Hugging Face's trainer",
     .telling = {"per_device_train_batch_size", "", "", "", ""},
     .flags =
         "--schedule NAME --pp-size K --micro-batch-size (per_device_train_batch_size) --num-microbatches "
         "(gradient_accumulation_steps)"},
    {.program = "torchtitan", .telling = {"activation_checkpoint", "job", "", "", ""}, .flags = ""},
}};

/// Returns the message that the input is a configuration of another program. `form` names its format, such
/// as "TOML, ".
std::string of_configuration(const Configuration& configuration, std::string_view form = "") {
  const std::string what =
      fmt::format("this is {}a configuration of {}, and {}; ", form, configuration.program, kTaken);
  return what + (configuration.flags.empty()
                     ? std::string(kImport)
                     : fmt::format("give its figures as flags: {}", configuration.flags));
}

bool has_key(const Node& document, std::string_view key) {
  return !key.empty() && document.find(key) != nullptr;
}

}  // namespace

std::string_view binary_form(std::string_view bytes) {
  const auto found = std::ranges::find_if(
      kFileBeginnings, [&](const FileBeginning& row) { return bytes.starts_with(row.bytes); });
  if (found != kFileBeginnings.end()) return found->form;
  return bytes.find('\0') == std::string_view::npos ? std::string_view{} : "a binary file";
}

TextForm text_form(std::string_view text) {
  const std::string_view first = first_statement(text);
  const std::string_view opening = text.substr(0, text.find('\n'));
  const bool is_script = opening.starts_with("#!");
  if (is_of_python(first) || (is_script && opening.find("python") != std::string_view::npos))
    return TextForm::python;
  // YAML may have Megatron's flags as keys: "--num-layers: 32".
  const bool is_yaml_key = first.substr(0, first.find(' ')).ends_with(':');
  if (is_script || text.starts_with("#SBATCH") || (!is_yaml_key && is_of_shell(first)))
    return TextForm::shell;
  const bool begins_like_toml = is_section(first) || !assigned_key(first).empty();
  return begins_like_toml && has_assignment(text) ? TextForm::toml : TextForm::other;
}

std::string foreign_text(std::string_view text) {
  switch (text_form(text)) {
    case TextForm::other:
      return "";
    case TextForm::python:
      return fmt::format("this is a program in Python, and {}", kTaken);
    case TextForm::shell:
      return fmt::format("this is a shell script, and {}; {}", kTaken, kImport);
    case TextForm::toml:
      break;
  }
  if (text.find("pipeline_parallel_") != std::string_view::npos ||
      text.find("[parallelism]") != std::string_view::npos)
    return of_configuration(kConfigurations.back(), "TOML, ");
  return fmt::format(
      "this is TOML, and {}; write `key = value` as `key: value`, and a [section] as a mapping", kTaken);
}

std::string foreign_configuration(const Node& document) {
  const auto is_option = [](const Node::Entry& entry) { return entry.key.text.starts_with("--"); };
  for (const Configuration& row : kConfigurations) {
    const bool tells =
        std::ranges::any_of(row.telling, [&](std::string_view key) { return has_key(document, key); });
    const bool has_options = row.program == "Megatron" && std::ranges::any_of(document.entries, is_option);
    if (tells || has_options) return of_configuration(row);
  }
  if (has_key(document, "model_type") || has_key(document, "architectures") ||
      has_key(document, "num_hidden_layers")) {
    return fmt::format(
        "this is the config.json of a model, and {}; give it as --model FILE, with --device, --sequence "
        "and a schedule",
        kTaken);
  }
  if (has_key(document, "schema_version"))
    return fmt::format("this is an answer of penstock, which `compare` and `diff` take, and {}", kTaken);
  return "";
}

// Suggests a device for an unknown name. Users type the output of nvidia-smi ("NVIDIA H100 80GB HBM3"),
// product names ("H100 PCIe") or devices that are unknown ("MI355X"). The name is divided into words, and the
// word that names a device determines the hint:
//
//   NVIDIA H100 80GB HBM3    h100: did you mean h100-sxm?
//   NVIDIA H100 PCIe         a variant by "pcie": h100-sxm with other flops, memory_bandwidth and nvlink
//   mi355x                   none: how to describe a device
//
// Similar spelling is not used, because one different character may mean another device (B100, H20).

namespace {

constexpr double kBytesPerGigabyte = 1e9;

/// Returns the words of a name in lower case. A word is a sequence of letters and digits.
std::vector<std::string> name_words(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      words.back().push_back(static_cast<char>(std::tolower(byte)));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

/// Returns the name without "-sxm", such as "h100" for "h100-sxm".
std::string_view family_of(const DeviceType& type) {
  return std::string_view(type.name).substr(0, type.name.find("-sxm"));
}

/// Returns the known device that a word names, such as "h100" or "h100sxm5", or null.
const DeviceType* device_named(std::string_view word) {
  for (const DeviceType& type : device_types()) {
    const std::string_view family = family_of(type);
    if (word == family || (word.starts_with(family) && word.substr(family.size()).starts_with("sxm")))
      return &type;
  }
  return nullptr;
}

/// Returns the gigabytes that a word such as "40gb" states.
std::optional<std::int64_t> gigabytes(std::string_view word) {
  const auto amount = leading_number<std::int64_t>(word);
  const std::string_view unit = word.substr(amount.spelling.size());
  return unit == "g" || unit == "gb" ? amount.value : std::nullopt;
}

/// Returns a sentence such as " Write memory: 40 GB beside it" if a word states another memory size than
/// that of the known device. Returns an empty text otherwise.
std::string other_memory(const DeviceType& type, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const auto stated = gigabytes(word);
    // Sizes in product names are rounded, and their unit is gigabytes or gibibytes.
    const auto has = static_cast<double>(type.memory_bytes);
    const bool is_same = stated && static_cast<double>(*stated) * kBytesPerGigabyte <= has * 1.05 &&
                         static_cast<double>(*stated) * kBytesPerGibibyte >= has * 0.95;
    if (stated && !is_same) return fmt::format(" Write memory: {} GB beside it", *stated);
  }
  return "";
}

std::string hint_for(std::string_view name) {
  const std::vector<std::string> words = name_words(name);
  const auto has_word = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
  for (const std::string& word : words) {
    const DeviceType* type = device_named(word);
    if (type == nullptr) continue;
    // Cards without the full NVLink have lower values for nearly all figures.
    if (has_word("pcie") || has_word("nvl")) {
      return fmt::format(
          "; write it as device: {} with its own flops, memory, memory_bandwidth and nvlink beside it",
          type->name);
    }
    return fmt::format("; did you mean {}?{}", type->name, other_memory(*type, words));
  }
  return "; write a device of your own as a known one with its own figures beside it, such as device: "
         "h100-sxm "
         "with flops, memory, memory_bandwidth, nvlink, network and kernels (tables that were measured on "
         "it)";
}

}  // namespace

std::string unknown_device(std::string_view name) {
  return fmt::format("expected one of {}, got \"{}\"{}", device_type_names(), name, hint_for(name));
}

}  // namespace penstock
