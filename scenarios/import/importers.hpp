#pragma once
// Reads configurations of other programs as scenarios: arguments of Megatron-LM, torchtitan's TOML and flags,
// DeepSpeed's JSON, nanotron's and Primus' YAML, recipes of Megatron Bridge, SimuMax and calculon. Files of
// machines become the part `cluster`.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/import/plan.hpp"
#include "scenarios/import/settings.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/machine.hpp"

namespace penstock {

/// One text to import, and its name for messages.
struct ImportInput {
  std::string name;  ///< the file, "-" or "--"
  std::string text;
};

/// A configuration of another program, and the settings that the user gives in addition.
struct ImportRequest {
  /// The texts of one configuration. SimuMax and calculon use two files: one for the model and one for the
  /// run.
  std::vector<ImportInput> inputs{};
  /// The name of the tool, a word of importer_names(). Empty if the inputs are recognised by their shape.
  std::string from{};
  std::string device{};                   ///< the name of an accelerator; empty if the user states none
  std::optional<std::int64_t> devices{};  ///< the number of devices
  std::optional<std::int64_t> nodes{};    ///< the number of servers, if `devices` is not stated
  std::string model{};                    ///< a config.json, or the name of a library or known model
  /// The number of layers to keep, from the first one on; absent for all layers.
  std::optional<std::int64_t> layers{};
  std::vector<std::string> ignore{};  ///< refused keys that the user wants to leave out
  /// Scenario keys that the user sets because the configuration does not state them. Keys of
  /// model.transformer count as sizes of the model.
  std::vector<Override> stated{};
};

/// The result of an import: the scenario, the decision about each key of the configuration, and notes.
struct Imported {
  std::string importer;           ///< the importer that read it, such as "Megatron-LM's arguments"
  std::string yaml;               ///< the scenario; empty if a key is refused
  std::vector<ImportedKey> keys;  ///< all keys of the configuration
  /// Assumptions, and the flags with which the user can state missing values.
  std::vector<std::string> notes;
};

/// Returns the name of the importer that reads the text, such as "torchtitan's TOML". Returns an empty text
/// if no importer recognises it. `name` is the name of the text's file. If `text` is empty, `name` is taken
/// as the name of a recipe.
std::string recognised_importer(std::string_view name, std::string_view text);

/// Returns the words for ImportRequest::from, such as "megatron".
std::vector<std::string_view> importer_names();

/// Reads a configuration of another program and writes it as a scenario. Returns an error if the text cannot
/// be parsed, its format is unknown, or the importer takes no key of it. Also fails on refused keys, and
/// lists all of them with reasons. Also fails if numbers contradict each other, for example if the global
/// batch is not a multiple of the microbatch size.
tl::expected<Imported, std::string> import_configuration(const ImportRequest& request);

/// Returns one sentence with the numbers of keys that were taken and ignored.
std::string import_summary(const Imported& imported);

// The importers, one for each tool whose configurations can be read. imported.cpp chooses one by the shape
// of the input.

/// The state of one import: the settings that the importer reads, and the plan that it fills.
struct Importing {
  Settings& settings;
  Plan& plan;
  /// The number of layers that --model or --layers states; absent if neither states it.
  std::optional<std::int64_t> stated_layers{};
  /// True if --model, or a model of the library that the configuration names, states the sizes.
  bool has_model = false;
  /// True if the configuration names this model, and --model does not state it.
  bool model_is_named = false;

  /// Returns the number of layers that the user or the configuration states. Returns nothing if neither
  /// states it.
  std::optional<std::int64_t> layers() const {
    return stated_layers ? stated_layers : plan.number("model.layers");
  }
};

/// Reads arguments of Megatron-LM: pasted flags, a script, or YAML with the same names.
void import_megatron(Importing& importing);
/// Reads a TOML file or flags of torchtitan.
void import_torchtitan(Importing& importing);
/// Returns the name of the model in scenarios/library/models that torchtitan's settings name. Returns an
/// empty text if there is none.
std::string torchtitan_library_model(const Settings& settings);
void import_deepspeed(Importing& importing);
void import_nanotron(Importing& importing);
/// Reads the two files of a SimuMax configuration, a strategy and a model.
void import_simumax(Importing& importing);
/// Reads the two files of a calculon configuration, an execution and an application.
void import_calculon(Importing& importing);

/// Reads the file of a server or network, and writes only the `cluster` part of a scenario. Returns an error
/// if a flag or key does not belong to a cluster, or if the file cannot be read.
tl::expected<Imported, std::string> import_machine(const ImportRequest& request, const ImportInput& input,
                                                   MachineFormat format);

/// Reads the numbers of nodes and devices that the flags of a launcher state, such as --nnodes of torchrun.
void take_launcher(Importing& importing);

/// A row of a table of keys. It says which key of the configuration becomes which key of the scenario.
struct CopiedRow {
  enum class Kind : std::uint8_t { number, word, on };
  std::string_view name;
  std::string_view target;  ///< a key of Plan::keys
  Kind kind = Kind::number;
  std::int64_t least = 1;  ///< the smallest number that a row of kind `number` accepts
};
/// Copies each key of the configuration that a row of `rows` names. A row of kind `on` sets the scenario's
/// key to true if the switch is on in the configuration.
void copy_rows(Importing& importing, std::span<const CopiedRow> rows);

/// Refuses the key `name` if its value is a type of 32 bits, such as float32. Takes it otherwise.
void refuse_32_bits(Settings& settings, std::string_view name);

/// Takes the width of all shared experts together, which Megatron-LM and SimuMax name alike. Refuses a width
/// that is no multiple of the width of one expert.
void take_shared_experts(Importing& importing);
/// Copies the sizes of latent attention, which Megatron-LM and SimuMax name alike. Removes the sizes of other
/// kinds of attention, such as kv_heads, because both programs ignore them then.
void copy_latent_sizes(Importing& importing);

/// Returns the number of layers of each stage if `layers` are divided into `stages` equal stages. Returns an
/// empty list if `layers` is not divisible by `stages`.
std::vector<std::int64_t> even_layers(std::int64_t layers, std::int64_t stages);
/// Returns numbers as a YAML list.
std::string list_yaml(const std::vector<std::int64_t>& numbers);

// Finds the sizes of models and the settings of recipes that a configuration states only by name.

/// Adds a known model to `plan`: its sizes as keys of model.transformer, or else the name of its
/// configuration in the library. `name` may be a file or a model's name, such as "llama3.1_8B.yaml",
/// "meta-llama/Llama-3.1-8B" or "llama3 8B". Returns false for an unknown name.
bool set_known_model(Plan& plan, std::string_view name);
/// Returns the names of the known models, separated by commas.
std::string known_model_names();

/// Adds the settings and model sizes of a recipe of Megatron Bridge. The settings have the names of
/// Megatron-LM's arguments. Returns false for an unknown recipe.
bool add_bridge_recipe(Settings& settings, Plan& plan, std::string_view name);
/// Returns the names of the known recipes.
std::vector<std::string_view> bridge_recipe_names();

}  // namespace penstock
