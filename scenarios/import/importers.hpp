#pragma once
// The importers, one for each kind of configuration. imported.cpp chooses one by the shape of the input.

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

/// A configuration while it is imported.
struct Importing {
  Settings& settings;
  Plan& plan;
  /// The layers of the model that --model or --layers states.
  std::optional<std::int64_t> stated_layers{};
  /// True if --model states the sizes of the model.
  bool has_model = false;

  /// Returns the number of layers, if anything states it.
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
/// Reads a strategy and a model of SimuMax.
void import_simumax(Importing& importing);
/// Reads an execution and an application of calculon.
void import_calculon(Importing& importing);

/// Reads the file of a server or network as the part `cluster` alone. Errors: flags or keys that are not of
/// such a cluster; a file that cannot be read.
tl::expected<Imported, std::string> import_machine(const ImportRequest& request, const ImportInput& input,
                                                   MachineFormat format);

/// Sets the number of devices from the arguments of a launcher, such as torchrun's.
void take_launcher(Importing& importing);

/// A row that copies a key of a configuration into a key of the scenario.
struct CopiedRow {
  enum class Kind : std::uint8_t { number, word, on };
  std::string_view name;
  std::string_view target;  ///< a key of Plan::keys
  Kind kind = Kind::number;
};
/// Copies the keys of a table that the configuration has. `on` writes true for a switch that is on.
void copy_rows(Importing& importing, std::span<const CopiedRow> rows);

/// Returns the layers of each of `stages` stages if each stage has equally many. Returns an empty list if the
/// layers do not divide.
std::vector<std::int64_t> even_layers(std::int64_t layers, std::int64_t stages);
/// Returns numbers as a YAML list.
std::string list_yaml(const std::vector<std::int64_t>& numbers);

}  // namespace penstock
