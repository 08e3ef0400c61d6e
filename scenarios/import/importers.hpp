#pragma once
// The importers, one for each tool whose configurations can be read. imported.cpp chooses one by the shape
// of the input.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/import/imported.hpp"
#include "scenarios/import/plan.hpp"
#include "scenarios/import/settings.hpp"
#include "scenarios/read/machine.hpp"

namespace penstock {

/// The state of one import: the settings that the importer reads, and the plan that it fills.
struct Importing {
  Settings& settings;
  Plan& plan;
  /// The number of layers that --model or --layers states; absent if neither states it.
  std::optional<std::int64_t> stated_layers{};
  /// True if --model states the sizes of the model.
  bool has_model = false;

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
void import_deepspeed(Importing& importing);
void import_nanotron(Importing& importing);
/// Reads the two files of a SimuMax configuration, a strategy and a model.
void import_simumax(Importing& importing);
/// Reads the two files of a calculon configuration, an execution and an application.
void import_calculon(Importing& importing);

/// Reads the file of a server or network, and writes only the `cluster` part of a scenario. Errors: flags or
/// keys that do not belong to a cluster; a file that cannot be read.
tl::expected<Imported, std::string> import_machine(const ImportRequest& request, const ImportInput& input,
                                                   MachineFormat format);

/// Sets the number of devices from the arguments of a launcher, such as torchrun's.
void take_launcher(Importing& importing);

/// A row of a table of keys. It says which key of the configuration becomes which key of the scenario.
struct CopiedRow {
  enum class Kind : std::uint8_t { number, word, on };
  std::string_view name;
  std::string_view target;  ///< a key of Plan::keys
  Kind kind = Kind::number;
};
/// Copies each key that is both in the table `rows` and in the configuration. A row of kind `on` sets the
/// scenario's key to true if the switch is on.
void copy_rows(Importing& importing, std::span<const CopiedRow> rows);

/// Returns the number of layers of each stage if `layers` are divided into `stages` equal stages. Returns an
/// empty list if `layers` is not divisible by `stages`.
std::vector<std::int64_t> even_layers(std::int64_t layers, std::int64_t stages);
/// Returns numbers as a YAML list.
std::string list_yaml(const std::vector<std::int64_t>& numbers);

}  // namespace penstock
