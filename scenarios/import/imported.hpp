#pragma once
// Reads configurations of other programs as scenarios: arguments of Megatron-LM, torchtitan's TOML and flags,
// DeepSpeed's JSON, nanotron's and Primus' YAML, recipes of Megatron Bridge, SimuMax and calculon. Files of
// machines become the part `cluster`.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/import/settings.hpp"
#include "scenarios/read/document_edits.hpp"

namespace penstock {

/// One text to import, and its name for messages.
struct ImportInput {
  std::string name;  ///< the file, "-" or "--"
  std::string text;
};

/// A configuration of another program, and the settings that the user gives in addition.
struct ImportRequest {
  /// The parts of one configuration. SimuMax and calculon have a file for the model and one for the run.
  std::vector<ImportInput> inputs{};
  std::string device{};                   ///< the name of an accelerator; empty if it is not stated
  std::optional<std::int64_t> devices{};  ///< the number of devices
  std::optional<std::int64_t> nodes{};    ///< the number of servers, if `devices` is not stated
  std::string model{};                    ///< a config.json, or the name of a known model
  std::optional<std::int64_t> layers{};   ///< the first layers of the model; all if it is not stated
  std::vector<std::string> ignore{};      ///< refused keys that the user wants to leave out
  /// Scenario keys that the user sets because the configuration does not state them. Keys of
  /// model.transformer count as sizes of the model.
  std::vector<Override> stated{};
};

/// An imported configuration.
struct Imported {
  std::string importer;            ///< the importer that read it, such as "Megatron-LM arguments"
  std::string yaml;                ///< the scenario; empty if a key is refused
  std::vector<ImportedKey> keys;   ///< all keys of the configuration
  std::vector<std::string> notes;  ///< assumptions, and flags that state what the configuration does not
};

/// Returns the name of the importer that reads the text, such as "torchtitan's TOML". Returns an empty text
/// if no importer recognises it. `name` is the name of the text's file. If `text` is empty, `name` is taken
/// as the name of a recipe.
std::string recognised_importer(std::string_view name, std::string_view text);

/// Reads a configuration of another program and writes it as a scenario. Returns an error if the text cannot
/// be parsed or its format is unknown. Also fails on refused keys, and lists all of them with reasons. Also
/// fails if numbers contradict each other, for example if the global batch is not a multiple of the
/// microbatch size.
tl::expected<Imported, std::string> import_configuration(const ImportRequest& request);

/// Returns one sentence with the numbers of keys that were taken and ignored.
std::string import_summary(const Imported& imported);

}  // namespace penstock
