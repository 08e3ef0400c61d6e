// Imports a configuration in these steps: recognise the text by its shape, collect its settings, let the
// importer fill a Plan, and write the plan as a scenario.
//
//     text               shape                                   importer
//     shell, flags       --training. and other kTorchSections    torchtitan, otherwise Megatron-LM
//     TOML               a section                               torchtitan
//     YAML, JSON         keys that only one program has          row of kShapes
//     XML, a matrix      as machine_format() says                machine_files.cpp
//     no text            the name of a recipe                    Megatron Bridge
//
// tests/scenarios/import_test.cpp has an example of each.

#include "scenarios/import/importers.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/import/plan.hpp"
#include "scenarios/import/settings.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/machine.hpp"
#include "scenarios/read/quantities.hpp"
#include "text/numbers.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

/// The tool for which a configuration is written, such as Megatron-LM or DeepSpeed.
enum class Origin : std::uint8_t {
  none,
  megatron,
  torchtitan,
  deepspeed,
  nanotron,
  simumax,
  calculon,
  primus,
  bridge,
  neox,  // recognised, but without an importer
  nemo,  // recognised, but without an importer
};

/// The keys that show for which tool a document is written. The document belongs to the tool `origin` if it
/// contains all keys of `needed`, at depth one or two.
struct OriginShape {
  Origin origin = Origin::none;
  std::array<std::string_view, 3> needed{};
};

constexpr auto kShapes = std::to_array<OriginShape>({
    // GPT-NeoX has names of Megatron-LM and of DeepSpeed, so its own names come first.
    {Origin::neox, {"pipe-parallel-size"}},
    {Origin::neox, {"pipe_parallel_size"}},
    {Origin::neox, {"model-parallel-size", "num-layers"}},
    {Origin::neox, {"model_parallel_size", "num_layers"}},
    {Origin::nemo, {"model.tensor_model_parallel_size", "trainer"}},
    {Origin::primus, {"modules.pre_trainer"}},
    {Origin::megatron, {"MODEL_ARGS"}},  // Megatron-LM's tests and recipes
    {Origin::megatron, {"ARGS"}},
    {Origin::megatron, {"tensor_model_parallel_size"}},
    {Origin::megatron, {"pipeline_model_parallel_size"}},
    {Origin::megatron, {"model.tensor_model_parallel_size", "train"}},
    {Origin::megatron, {"language_model.num_layers"}},
    {Origin::megatron, {"num_layers", "hidden_size", "num_attention_heads"}},
    {Origin::deepspeed, {"train_batch_size"}},
    {Origin::deepspeed, {"train_micro_batch_size_per_gpu"}},
    {Origin::deepspeed, {"zero_optimization"}},
    {Origin::nanotron, {"parallelism", "tokens"}},
    {Origin::nanotron, {"parallelism.dp", "parallelism.pp"}},
    {Origin::simumax, {"tp_size", "pp_size"}},
    {Origin::simumax, {"micro_batch_num"}},
    {Origin::simumax, {"layer_num", "head_num"}},
    {Origin::calculon, {"tensor_par", "pipeline_par"}},
    {Origin::calculon, {"num_blocks", "attn_heads"}},
    {Origin::calculon, {"matrix", "vector", "networks"}},
});

/// Returns the name of a tool's configuration as error messages print it, such as "Megatron-LM's
/// arguments".
std::string_view title_of(Origin origin) {
  switch (origin) {
    case Origin::megatron:
      return "Megatron-LM's arguments";
    case Origin::torchtitan:
      return "torchtitan's settings";
    case Origin::deepspeed:
      return "DeepSpeed's configuration";
    case Origin::nanotron:
      return "nanotron's configuration";
    case Origin::simumax:
      return "SimuMax's configuration";
    case Origin::calculon:
      return "calculon's configuration";
    case Origin::primus:
      return "Primus' experiment";
    case Origin::bridge:
      return "a recipe of Megatron Bridge";
    case Origin::neox:
      return "GPT-NeoX's configuration";
    case Origin::nemo:
      return "the configuration of NeMo's launcher";
    case Origin::none:
      break;
  }
  return "";
}

/// A tool whose configurations are recognised but have no importer.
struct UnreadOrigin {
  Origin origin = Origin::none;
  /// True if --from names an importer that may still read the configuration.
  bool has_reader = false;
  std::string_view advice;
};

constexpr auto kUnreadOrigins = std::to_array<UnreadOrigin>({
    {Origin::neox, false,
     "state its numbers as flags of Megatron-LM: pipe-parallel-size is --pipeline-model-parallel-size, "
     "model-parallel-size is --tensor-model-parallel-size, and train_micro_batch_size_per_gpu is "
     "--micro-batch-size"},
    {Origin::nemo, true,
     "state its numbers as flags of Megatron-LM, such as --use-distributed-optimizer for the optimizer "
     "distributed_fused_adam, or add --from megatron, which reads most keys"},
});

/// Returns the error for a configuration that is recognised as one of kUnreadOrigins, or an empty text.
/// `stated` is the tool that --from names.
std::string unread_origin_error(Origin shape, Origin stated) {
  const auto found = std::ranges::find(kUnreadOrigins, shape, &UnreadOrigin::origin);
  if (found == kUnreadOrigins.end() || (found->has_reader && stated != Origin::none)) return "";
  return fmt::format("this is {}, which has no importer; {}", title_of(shape), found->advice);
}

/// The sections of torchtitan's settings. Its flags begin with one of them, as in --training.seq_len.
constexpr auto kTorchSections = std::to_array<std::string_view>(
    {"--parallelism.", "--training.", "--job.", "--experimental.", "--activation_checkpoint.", "--compile.",
     "--float8.", "--quantize.", "--profiling.", "--metrics.", "--lr_scheduler."});

bool is_torch_flag(std::string_view word) {
  return std::ranges::any_of(kTorchSections, [&](std::string_view part) { return word.starts_with(part); });
}

/// Returns true if the document contains the key. Points separate the parts of a nested key, as in
/// "model.layers".
bool states_key(const Node& document, std::string_view key) {
  if (key.empty() || document.find(key) != nullptr) return true;
  const std::size_t point = key.find('.');
  if (point == std::string_view::npos) return false;
  const Node* inner = document.find(key.substr(0, point));
  return inner != nullptr && inner->kind == Node::Kind::mapping && states_key(*inner, key.substr(point + 1));
}

Origin origin_of(const Node& document) {
  if (document.kind != Node::Kind::mapping) return Origin::none;
  // A Hugging Face config.json also has some of these keys, but it describes only a model and not a run.
  if (states_key(document, "architectures") || states_key(document, "transformers_version"))
    return Origin::none;
  for (const OriginShape& shape : kShapes) {
    const auto is_there = [&](std::string_view key) { return states_key(document, key); };
    if (std::ranges::all_of(shape.needed, is_there)) return shape.origin;
  }
  const auto is_flag = [](const Node::Entry& entry) { return entry.key.text.starts_with("--"); };
  return std::ranges::any_of(document.entries, is_flag) ? Origin::megatron : Origin::none;
}

tl::expected<Node, std::string> document_of(const ImportInput& input) {
  return parse_document(input.text, std::make_shared<const Source>(
                                        Source{.name = input.name, .directory = {}, .override_key = ""}));
}

/// The content of all input files: the tool that they belong to, their settings, and the plan that the
/// importer fills.
struct Collected {
  Origin origin = Origin::none;
  Settings settings;
  Plan plan;
  std::string converters{};  ///< torchtitan's model.converters, if a model of Primus selects them
};

/// Reads the comment lines that `sim/choose/launchers.cpp` writes above the flags that it generates. They
/// state the number of devices, and scenario keys that no flag can express.
void read_emitted_comments(std::string_view text, Plan& plan) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    constexpr std::string_view kKey = "# penstock: ";
    if (line.starts_with("# Megatron-LM core_v") || line.starts_with("# torchtitan v")) {
      const std::size_t mark = line.find(", on ");
      if (mark == std::string_view::npos) continue;
      plan.devices = leading_number<std::int64_t>(line.substr(mark + 5)).value;
    } else if (line.starts_with(kKey)) {
      const std::string_view key = line.substr(kKey.size());
      const std::size_t equals = key.find('=');
      if (equals != std::string_view::npos)
        plan.set(std::string(key.substr(0, equals)), std::string(key.substr(equals + 1)));
    }
  }
}

tl::expected<void, std::string> collect_shell(const ImportInput& input, Origin stated, Collected& collected) {
  read_emitted_comments(input.text, collected.plan);
  const ShellCommand command = read_shell(input.text);
  if (!command.error.empty()) return tl::unexpected(fmt::format("{}: {}", input.name, command.error));
  for (const ImportedKey& resource : command.resources) collected.settings.add(resource.key, resource.value);
  add_flags(collected.settings, command.words);
  for (const std::string& note : command.notes) collected.plan.notes.push_back(input.name + ": " + note);
  const bool follows_file = collected.origin == Origin::torchtitan;
  const Origin shape =
      std::ranges::any_of(command.words, is_torch_flag) ? Origin::torchtitan : Origin::megatron;
  collected.origin = stated == Origin::none ? shape : stated;
  const std::string* file = collected.settings.find("job.config_file");
  if (collected.origin == Origin::torchtitan && file != nullptr && !follows_file) {
    collected.plan.notes.push_back(
        fmt::format("--job.config_file {0} states further settings, which are not read: import that file, or "
                    "both with penstock import {0} {1}",
                    *file, input.name));
  }
  return {};
}

/// Returns a text of Primus in which "${NAME:default}" is replaced by its default. A real run would first
/// look for NAME in the environment.
std::string primus_value(std::string text) {
  const std::size_t begin = text.find("${");
  if (begin == std::string::npos) return text;
  const std::size_t end = text.find('}', begin);
  const std::size_t colon = text.find(':', begin);
  if (end == std::string::npos || colon == std::string::npos || colon > end) return text;
  return text.substr(0, begin) + text.substr(colon + 1, end - colon - 1) + text.substr(end + 1);
}

void resolve_primus_values(Node& node) {
  if (node.kind == Node::Kind::scalar) node.text = primus_value(std::move(node.text));
  for (Node& item : node.items) resolve_primus_values(item);
  for (Node::Entry& entry : node.entries) resolve_primus_values(entry.value);
}

/// Sets the sizes of a model that Primus names, such as "llama3.1_70B-fp8.yaml". A name that ends in the
/// precision also selects the precision, because such a model file differs only in torchtitan's converters.
void set_primus_model(const std::string& model, Collected& collected) {
  constexpr std::string_view kModel = "modules.pre_trainer.model";
  std::string name = model.substr(0, model.rfind(".yaml"));
  for (const std::string_view precision : {"-fp8", "-FP8", "-bf16", "-BF16"}) {
    if (!name.ends_with(precision)) continue;
    name = name.substr(0, name.size() - precision.size());
    if (precision.find('8') == std::string_view::npos ||
        collected.settings.has("modules.pre_trainer.overrides.model.converters"))
      continue;
    collected.settings.take(kModel, "model.transformer and training.precision");
    collected.converters = "float8";
  }
  if (set_known_model(collected.plan, name)) return;
  collected.plan.notes.push_back(
      fmt::format("the sizes of {} are not known here; known are {}", model, known_model_names()));
  collected.settings.ignore(kModel, "the sizes of the model are not known here");
}

/// Reads an experiment file of Primus. The file names a model and a framework, and changes settings of this
/// framework under the framework's own names.
void collect_primus(Node document, Collected& collected) {
  resolve_primus_values(document);
  collected.settings.add_document(document);
  constexpr std::string_view kTrainer = "modules.pre_trainer.";
  if (const auto model = collected.settings.word(fmt::format("{}model", kTrainer), "model.transformer"))
    set_primus_model(*model, collected);
  const std::string framework =
      collected.settings.word(fmt::format("{}framework", kTrainer), "training.framework")
          .value_or("megatron");
  collected.origin = framework == "torchtitan" ? Origin::torchtitan : Origin::megatron;
  if (framework != "torchtitan" && framework != "megatron") {
    collected.settings.refuse(fmt::format("{}framework", kTrainer), "megatron and torchtitan have importers");
    return;
  }
  if (collected.origin == Origin::torchtitan) {
    collected.settings.rename(fmt::format("{}overrides.", kTrainer), "");
    if (!collected.converters.empty()) collected.settings.add("model.converters", collected.converters);
    return;
  }
  const auto states = [&](std::string_view key) {
    return collected.settings.has(fmt::format("{}overrides.{}", kTrainer, key));
  };
  if (states("bf16") || states("fp16")) return;
  collected.settings.add("bf16", "true");
  collected.plan.notes.emplace_back("bf16 is not stated: it is on, as in Primus' trainer_base.yaml");
}

/// Adds Megatron-LM's names for keys of NeMo that have other names.
void rename_nemo_keys(Settings& settings) {
  struct NemoKey {
    std::string_view name;
    std::string_view value;  ///< the value that switches the argument on; empty if it has NeMo's value
    std::string_view argument;
  };
  constexpr auto kKeys =
      std::to_array<NemoKey>({{"trainer.devices", "", "nproc_per_node"},
                              {"trainer.precision", "bf16", "bf16"},
                              {"trainer.precision", "bf16-mixed", "bf16"},
                              {"trainer.precision", "16", "fp16"},
                              {"model.optim.name", "distributed_fused_adam", "use_distributed_optimizer"},
                              {"model.optim.overlap_grad_sync", "", "overlap_grad_reduce"}});
  for (const NemoKey& key : kKeys) {
    const std::string* found = settings.find(key.name);
    if (found == nullptr || (!key.value.empty() && *found != key.value)) continue;
    const std::string value = key.value.empty() ? *found : "true";
    settings.take(key.name, fmt::format("--{}", key.argument));
    settings.add(std::string(key.argument), value);
  }
}

tl::expected<void, std::string> collect_document(const ImportInput& input, Origin stated,
                                                 Collected& collected) {
  auto document = document_of(input);
  if (!document) return tl::unexpected(document.error());
  const Origin shape = origin_of(*document);
  if (const std::string unread = unread_origin_error(shape, stated); !unread.empty())
    return tl::unexpected(fmt::format("{}: {}", input.name, unread));
  const Origin origin = stated == Origin::none ? shape : stated;
  if (origin == Origin::none) {
    return tl::unexpected(fmt::format(
        "{}: no importer knows these keys; expected arguments of Megatron-LM, settings of torchtitan, a "
        "configuration of DeepSpeed, nanotron, SimuMax, calculon or Primus, a file of a machine (NCCL's "
        "topology, "
        "nvidia-smi topo -m, a network of ASTRA-sim), or the name of a recipe of Megatron Bridge",
        input.name));
  }
  if (collected.origin != Origin::none && collected.origin != origin) {
    return tl::unexpected(
        fmt::format("{}: this is {}, and the file before it is {}; give the files of one program", input.name,
                    title_of(origin), title_of(collected.origin)));
  }
  collected.origin = origin;
  if (origin == Origin::primus) {
    collect_primus(*std::move(document), collected);
    return {};
  }
  collected.settings.add_document(*document);
  if (shape == Origin::nemo) rename_nemo_keys(collected.settings);
  return {};
}

tl::expected<void, std::string> collect(const ImportInput& input, Origin stated, Collected& collected) {
  if (input.text.empty()) {
    if (add_bridge_recipe(collected.settings, collected.plan, input.name)) {
      collected.origin = Origin::bridge;
      return {};
    }
    return tl::unexpected(fmt::format(
        "{}: expected a file or a recipe of Megatron Bridge, which are {}, each followed by _pretrain_config",
        input.name, fmt::join(bridge_recipe_names(), ", ")));
  }
  switch (text_form(input.text)) {
    case TextForm::shell:
      return collect_shell(input, stated, collected);
    case TextForm::toml: {
      if (stated != Origin::none && stated != Origin::torchtitan) {
        return tl::unexpected(
            fmt::format("{}: expected {}, got TOML, which only torchtitan has; leave --from out", input.name,
                        title_of(stated)));
      }
      collected.origin = Origin::torchtitan;
      const auto added = add_toml(collected.settings, input.text);
      if (!added) return tl::unexpected(fmt::format("{}:{}", input.name, added.error()));
      return {};
    }
    case TextForm::python:
      return tl::unexpected(
          fmt::format("{}: this is a program in Python, which is not run; print the configuration that it "
                      "makes as YAML or JSON",
                      input.name));
    case TextForm::other:
      return collect_document(input, stated, collected);
  }
  return {};
}

/// Returns the number of layers that the user states with --layers or --set, or nothing.
std::optional<std::int64_t> stated_layers(const ImportRequest& request) {
  if (request.layers) return request.layers;
  const auto is_layers = [](const Override& change) {
    return change.key == "model.transformer.layers" || change.key == "model.layers";
  };
  const auto found = std::ranges::find_if(request.stated, is_layers);
  return found == request.stated.end() ? std::nullopt : number_of_text<std::int64_t>(found->value);
}

/// Determines the model: the one that the user states, or else the one that a recipe names. A model is
/// given as a file or as the name of a known model. Returns the value for `model.huggingface`. This value
/// is empty if the plan states the model's sizes instead.
tl::expected<std::string, std::string> take_stated_model(const ImportRequest& request, Importing& importing) {
  std::string model = request.model.empty() ? importing.plan.library_model : request.model;
  if (model.empty()) {
    importing.stated_layers = stated_layers(request);
    return std::string();
  }
  importing.has_model = true;
  importing.model_is_named = request.model.empty();
  std::error_code ignored;
  // A configuration file of the model library describes the whole model, but the table of known models has
  // only sizes. So the library comes first.
  const bool is_file = std::filesystem::exists(model, ignored) || is_library_config(model, model);
  if (!is_file && set_known_model(importing.plan, model)) model = importing.plan.library_model;
  if (model.empty()) {
    if (request.layers) importing.plan.set("model.layers", *request.layers);
    importing.stated_layers = importing.plan.number("model.layers");
    return std::string();
  }
  // A key of the configuration is not one of the model's file, which would refuse it.
  std::vector<std::string> of_model;
  std::ranges::copy_if(request.ignore, std::back_inserter(of_model),
                       [&](const std::string& key) { return !importing.settings.states(key); });
  const auto part = load_architecture({.config = model, .ignore = of_model, .layers = request.layers});
  if (!part) return tl::unexpected(part.error());
  importing.stated_layers = static_cast<std::int64_t>(part->architecture.layers.size());
  if (request.layers) importing.plan.set("model.layers", *request.layers);
  return model;
}

void run_importer(Origin origin, Importing& importing) {
  switch (origin) {
    case Origin::megatron:
    case Origin::primus:
    case Origin::bridge:
      importing.settings.compare_last_parts();
      return import_megatron(importing);
    case Origin::torchtitan:
      return import_torchtitan(importing);
    case Origin::deepspeed:
      return import_deepspeed(importing);
    case Origin::nanotron:
      return import_nanotron(importing);
    case Origin::simumax:
      return import_simumax(importing);
    case Origin::calculon:
      return import_calculon(importing);
    case Origin::neox:
    case Origin::nemo:
    case Origin::none:
      return;
  }
}

/// Returns an error if --ignore names a key that the configuration does not have. With a model's file, that
/// file may have the key, and load_architecture() checks it.
std::string ignore_fault(const ImportRequest& request, const Settings& settings,
                         const std::string& model_file) {
  if (!model_file.empty()) return "";
  for (const std::string& key : request.ignore) {
    if (!settings.states(key)) {
      return fmt::format("--ignore {}: expected a key of this configuration, and it has none of this name",
                         key);
    }
  }
  return "";
}

/// Returns the number of devices that the user states with --devices or --nodes, or nothing if neither is
/// given.
std::optional<std::int64_t> stated_devices(const ImportRequest& request, const Plan& plan) {
  if (request.devices || !request.nodes) return request.devices;
  const DeviceType* type = request.device.empty() ? nullptr : find_device_type(request.device);
  const std::int64_t of_node = plan.devices_per_node.value_or(type == nullptr ? 8 : type->devices_per_node);
  return *request.nodes * of_node;
}

/// Returns a message with all refused keys, or an empty text. The message ends with the parts of a script
/// that were not read, because they may be the reason why a value is not known.
std::string refusal_of(const std::vector<ImportedKey>& keys, const std::vector<std::string>& refusals,
                       const std::vector<std::string>& unread) {
  std::vector<std::string> lines;
  for (const ImportedKey& key : keys) {
    if (key.fate == Fate::refused) lines.push_back(fmt::format("{} {}: {}", key.key, key.value, key.text));
  }
  const bool has_keys = !lines.empty();
  lines.insert(lines.end(), refusals.begin(), refusals.end());
  if (lines.empty()) return "";
  lines.insert(lines.end(), unread.begin(), unread.end());
  return fmt::format("refused, because the prediction would be wrong{}:\n  {}",
                     has_keys ? " (--ignore KEY leaves a key out)" : "", fmt::join(lines, "\n  "));
}

/// Returns true if the importer has used no key. Keys of a launcher do not count, because they state only
/// devices.
bool takes_nothing(const std::vector<ImportedKey>& keys) {
  return std::ranges::none_of(keys, [](const ImportedKey& key) {
    return key.fate == Fate::taken && !key.text.starts_with("cluster.");
  });
}

/// Sets the keys that replace those of an importer: the number of layers that the user states, the keys of
/// comment lines that Penstock wrote itself, which are exact, and the user's own keys.
void set_exact_keys(const ImportRequest& request,
                    const std::vector<std::pair<std::string, std::string>>& of_comments, Plan& plan) {
  if (request.layers) plan.set("model.layers", *request.layers);
  for (const auto& [key, value] : of_comments) {
    if (!key.starts_with("model.")) plan.set(key, value);
  }
  for (const Override& change : request.stated) {
    constexpr std::string_view kSizes = "model.transformer.";
    plan.set(change.key.starts_with(kSizes) ? "model." + change.key.substr(kSizes.size()) : change.key,
             change.value);
  }
  if (const auto devices = stated_devices(request, plan)) plan.devices = devices;
}

/// Writes the scenario. An error ends with the importer's notes, because they may say why a number is
/// missing.
tl::expected<WrittenScenario, std::string> scenario_or_notes(Plan plan, const PlanChoices& choices) {
  std::string notes;
  for (const std::string& note : plan.notes) notes += "\n  note: " + note;
  return scenario_of_plan(std::move(plan), choices).map_error([&](const std::string& error) {
    return error + notes;
  });
}

/// The words of --from, in the order of Origin.
constexpr auto kOriginNames = std::to_array<std::pair<std::string_view, Origin>>({
    {"megatron", Origin::megatron},
    {"torchtitan", Origin::torchtitan},
    {"deepspeed", Origin::deepspeed},
    {"nanotron", Origin::nanotron},
    {"simumax", Origin::simumax},
    {"calculon", Origin::calculon},
    {"primus", Origin::primus},
    {"bridge", Origin::bridge},
});

/// Returns the tool of a name, Origin::none for an empty name, or an error for an unknown name.
tl::expected<Origin, std::string> origin_of_name(std::string_view name) {
  if (name.empty()) return Origin::none;
  const auto found = std::ranges::find(kOriginNames, name, &std::pair<std::string_view, Origin>::first);
  if (found != kOriginNames.end()) return found->second;
  return tl::unexpected(
      fmt::format("--from: expected one of {}, got \"{}\"", fmt::join(importer_names(), ", "), name));
}

}  // namespace

std::vector<std::string_view> importer_names() {
  std::vector<std::string_view> names;
  names.reserve(kOriginNames.size());
  for (const auto& [name, origin] : kOriginNames) names.push_back(name);
  return names;
}

std::string recognised_importer(std::string_view name, std::string_view text) {
  if (text.empty()) {
    Settings settings;
    Plan plan;
    return std::string(add_bridge_recipe(settings, plan, name) ? title_of(Origin::bridge) : "");
  }
  switch (text_form(text)) {
    case TextForm::shell:
      return std::string(title_of(std::ranges::any_of(kTorchSections,
                                                      [&](std::string_view part) {
                                                        return text.find(part) != std::string_view::npos;
                                                      })
                                      ? Origin::torchtitan
                                      : Origin::megatron));
    case TextForm::toml:
      return std::string(title_of(Origin::torchtitan));
    case TextForm::python:
      return "";
    case TextForm::other:
      break;
  }
  const auto document = document_of({.name = std::string(name), .text = std::string(text)});
  if (!document) return "";
  const Origin origin = origin_of(*document);
  return std::string(unread_origin_error(origin, Origin::none).empty() ? title_of(origin) : "");
}

tl::expected<Imported, std::string> import_configuration(const ImportRequest& request) {
  const auto stated = origin_of_name(request.from);
  if (!stated) return tl::unexpected(stated.error());
  for (const ImportInput& input : request.inputs) {
    const MachineFormat machine = *stated == Origin::none ? machine_format(input.text) : MachineFormat::none;
    if (machine != MachineFormat::none) return import_machine(request, input, machine);
  }
  Collected collected;
  std::vector<std::string> names;
  for (const ImportInput& input : request.inputs) {
    if (auto added = collect(input, *stated, collected); !added) return tl::unexpected(added.error());
    names.push_back(input.name);
  }
  const std::string name = fmt::format("{}", fmt::join(names, ", "));
  Importing importing{.settings = collected.settings, .plan = collected.plan};
  const auto stated_keys = collected.plan.keys;
  if (collected.origin == Origin::torchtitan && collected.plan.library_model.empty())
    collected.plan.library_model = torchtitan_library_model(collected.settings);
  const auto model_file = take_stated_model(request, importing);
  if (!model_file) return tl::unexpected(model_file.error());
  if (const std::string fault = ignore_fault(request, collected.settings, *model_file); !fault.empty())
    return tl::unexpected(fmt::format("{}: {}", name, fault));
  // Notes on those parts of a shell script that were not evaluated.
  const std::vector<std::string> unread = collected.plan.notes;
  run_importer(collected.origin, importing);
  Plan& plan = collected.plan;
  set_exact_keys(request, stated_keys, plan);
  Imported imported{.importer = std::string(title_of(collected.origin)),
                    .yaml = "",
                    .keys = collected.settings.report(request.ignore),
                    .notes = {}};
  if (const std::string refusal = refusal_of(imported.keys, plan.refusals, unread); !refusal.empty())
    return tl::unexpected(fmt::format("{}: {}", name, refusal));
  if (takes_nothing(imported.keys)) {
    return tl::unexpected(fmt::format("{}: no key of {} is found, so there is nothing to predict{}{}", name,
                                      imported.importer, unread.empty() ? "" : ": ",
                                      fmt::join(unread, "; ")));
  }
  auto scenario = scenario_or_notes(std::move(plan), {.device = request.device, .model = *model_file});
  if (!scenario) return tl::unexpected(fmt::format("{}: {}", name, scenario.error()));
  imported.yaml = std::move(scenario->yaml);
  imported.notes = std::move(scenario->notes);
  return imported;
}

std::string import_summary(const Imported& imported) {
  const auto count = [&](Fate fate) { return std::ranges::count(imported.keys, fate, &ImportedKey::fate); };
  std::string summary = fmt::format("read as {}: {} keys taken, {} ignored", imported.importer,
                                    count(Fate::taken), count(Fate::ignored));
  constexpr std::string_view kUnknown = "unknown; ";
  std::vector<std::string> unknown;
  for (const ImportedKey& key : imported.keys) {
    if (key.text == "unknown") unknown.push_back(key.key);
    if (key.text.starts_with(kUnknown))
      unknown.push_back(fmt::format("{} ({})", key.key, key.text.substr(kUnknown.size())));
  }
  constexpr std::size_t kMost = 5;
  if (unknown.empty()) return summary;
  summary += fmt::format(", of which {} unknown: ",
                         unknown.size() == 1 ? "one is" : fmt::format("{} are", unknown.size()));
  const std::size_t shown = std::min(unknown.size(), kMost);
  summary += fmt::format(
      "{}", fmt::join(unknown.begin(), unknown.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return unknown.size() > shown ? summary + ", .." : summary;
}

}  // namespace penstock
