// Declares the flags that describe a model on named devices. Each flag sets a key of the scenario. Therefore
// the scenario's readers parse, check and explain its value.

#include "cli/model_flags.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/subcommand.hpp"
#include "scenarios/read/override.hpp"
#include "scenarios/read/scenario_text.hpp"

namespace penstock {

namespace {

/// Declares the flags of one group of the help text.
class ModelFlagGroup {
 public:
  explicit ModelFlagGroup(Subcommand app) : app_(app) {}

  void text(const std::string& name, std::string& value, const std::string& type, const std::string& help) {
    app_.add_option(name, value, help).group(group_).type_name(type);
  }
  void number(const std::string& name, std::optional<std::int64_t>& value, const std::string& help) {
    app_.add_option(name, value, help).range(std::int64_t{1}, kMost).group(group_).type_name("N");
  }
  /// Declares a flag that may be repeated. Each occurrence has one value.
  void texts(const std::string& name, std::vector<std::string>& values, const std::string& type,
             const std::string& help) {
    app_.add_option(name, values, help).one_value_each().group(group_).type_name(type);
  }

 private:
  static constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  Subcommand app_;
  std::string group_ = "Model and devices (override the scenario)";
};

}  // namespace

void add_memory_reserve_flag(Subcommand app, ModelFlags& flags) {
  ModelFlagGroup(app).text(
      "--memory-reserve", flags.memory_reserve, "BYTES",
      "of each device that nothing may use (default: what a named device's driver keeps and 3 GiB)");
}

void add_trained_model_flags(Subcommand app, ModelFlags& flags) {
  ModelFlagGroup group(app);
  group.text("--model", flags.model, "FILE", "config.json of a transformer, as Hugging Face has it");
  group.texts("--ignore", flags.ignore, "KEY", "a key of it that has no price: leave it out, and say so");
  group.number("--sequence", flags.sequence, "tokens of a sample");
  group.number("--layers", flags.layers, "only the first N layers");
  group.text("--device", flags.device, "NAME",
             "a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300 or gb300");
  group.number("--nodes", flags.nodes, "nodes of these devices (default 1)");
  add_memory_reserve_flag(app, flags);
  group.text("--precision", flags.precision, "WORD", "of matrix products: bf16 (default), fp8 or fp4");
}

void add_model_flags(Subcommand app, ModelFlags& flags) {
  add_trained_model_flags(app, flags);
  ModelFlagGroup group(app);
  group.number("--tensor-parallel", flags.tensor_parallel, "devices that share each layer (default 1)");
  group.number("--context-parallel", flags.context_parallel, "devices that share each sequence (default 1)");
  group.number("--expert-parallel", flags.expert_parallel,
               "devices that share the experts of a layer (default 1)");
  group.text("--recompute", flags.recompute, "WORD",
             "by each layer: none (default), selective, norm, activation, mlp or full");
  group.text(
      "--layer-split", flags.layer_split, "RULE",
      "even (default where layers divide), ends-one-less, balanced (by price; default where they do not), a "
      "Megatron layout such as \"Et*3|t*4|t*3L\" or a list [3, 4, 3]");
}

// An empty text means that the flag was not given.
std::vector<Override> overrides_of(const ModelFlags& flags) {
  std::vector<Override> overrides;
  const auto text = [&](const std::string& key, const std::string& value, const std::string& flag) {
    if (!value.empty()) overrides.push_back({.key = key, .value = value, .flag = flag});
  };
  const auto number = [&](const std::string& key, const std::optional<std::int64_t>& value,
                          const std::string& flag) {
    if (value) overrides.push_back({.key = key, .value = std::to_string(*value), .flag = flag});
  };
  // A file name is quoted, so that YAML does not interpret it.
  if (!flags.model.empty()) text("model.huggingface", scalar_to_yaml(flags.model), "--model");
  if (!flags.ignore.empty())
    text("model.ignore", fmt::format("[{}]", fmt::join(flags.ignore, ", ")), "--ignore");
  number("model.sequence", flags.sequence, "--sequence");
  number("model.layers", flags.layers, "--layers");
  text("cluster.device", flags.device, "--device");
  number("cluster.nodes", flags.nodes, "--nodes");
  text("cluster.reserve", flags.memory_reserve, "--memory-reserve");
  number("parallel.tensor", flags.tensor_parallel, "--tensor-parallel");
  number("parallel.context", flags.context_parallel, "--context-parallel");
  number("parallel.expert", flags.expert_parallel, "--expert-parallel");
  text("training.precision", flags.precision, "--precision");
  text("training.recompute", flags.recompute, "--recompute");
  text("schedule.layer_split", flags.layer_split, "--layer-split");
  return overrides;
}

}  // namespace penstock
