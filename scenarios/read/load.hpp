#pragma once
// Reads a scenario from YAML (or JSON) text, the files that it names, and the edits of `--set`. README.md
// describes the schema. experiment.hpp prepares the result for an engine.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// Reads the scenario in the file at `path` and applies the overrides. Errors have the form
/// "FILE:LINE:COLUMN: KEY.PATH: expected ..., got ...", or "--set KEY: ..." if an override caused the
/// error.
tl::expected<Scenario, std::string> load_scenario(const std::filesystem::path& path,
                                                  std::span<const Override> overrides = {});

/// Reads a scenario from text. Messages call the text `name`. File names in the text are relative to
/// `base_directory`.
tl::expected<Scenario, std::string> parse_scenario(std::string_view text, std::string_view name,
                                                   const std::filesystem::path& base_directory,
                                                   std::span<const Override> overrides = {});

/// Returns the text of a scenario file, with the overrides applied. An empty `path` means the scenario `{}`.
/// File names in the result are full paths, so that it describes the same scenario in any directory. Fails
/// for those errors of load_scenario() that concern only the document and the overrides.
tl::expected<std::string, std::string> edited_scenario(const std::filesystem::path& path,
                                                       std::span<const Override> overrides);

// Reads a program file as a scenario with unit costs and links that take no time. --set can change these
// defaults.

/// Reads the file at `path` as a scenario. If it is a program file, returns a scenario with this program. If
/// `path` is "-", reads standard input, whose content decides which of the two it is. Fails if
/// load_scenario() fails.
tl::expected<Scenario, std::string> load_scenario_or_program(const std::filesystem::path& path,
                                                             std::span<const Override> overrides = {});

// The form of a file, derived from the end of its name.

/// Returns true if `name` ends in `suffix` (such as ".csv"), in capital or small letters.
bool has_file_suffix(std::string_view name, std::string_view suffix);

/// Returns true if the file name is that of a program file, which ends in .psched or .csv.
bool names_program(std::string_view file);

/// Returns true if a text from standard input is a program: it begins like a .psched file, or has no colon,
/// like PyTorch's .csv. A scenario is a mapping, so it has a colon unless it is empty or `{}`.
bool is_program_text(std::string_view text);

// Reads `model: {fitted: FILE, hidden: H, heads: A, layers: L, sequence: S}`, and the file of fitted costs
// that it names.

/// Returns the keys of `model:` that a scenario may state together with `fitted`.
std::span<const Key> keys_beside_fitted();

/// Reads a model with fitted costs, except for its degrees of parallelism. Problems: a missing key; a file
/// that cannot be read; a file that does not contain fitted costs.
FittedModel read_fitted(const MappingReader& model, Problem& problem);
/// Sets the degrees of tensor and data parallelism. Records a problem if the degree of context or expert
/// parallelism is above 1.
void set_degrees(FittedModel& model, const Node& document, const Parallel& degrees, Problem& problem);

/// Reads a file of fitted costs in JSON or YAML. Errors have the form "FILE:LINE:COLUMN: KEY: expected ..,
/// got ..".
tl::expected<IterationCosts, std::string> load_iteration_costs(const std::filesystem::path& path,
                                                               std::string_view name);
/// Returns the text of a JSON file with the costs. load_iteration_costs() reads it as the same `costs`.
std::string iteration_costs_to_json(const IterationCosts& costs);

// Reads and writes layer graphs in the format of PipeDream's profiler (graph.txt;
// github.com/msr-fiddle/pipedream, profiler/*/profiles). load_model.cpp uses it for `profile: FILE`.

/// Reads the layers of a PipeDream profile. The times and bytes hold for the profile's batch size. Layers are
/// in topological order. Among nodes whose inputs are all available, the node with the smallest number comes
/// first. A layer's name is its operation and number ("Conv2d-4"). Nodes that load data (`Input`, `Input0`,
/// ...) are dropped, and so are `__getitem__` nodes that no layer reads. `file` is the name in errors. Errors
/// begin with FILE:LINE. A line must be a node or an edge, and figures must be numbers. No node may occur
/// twice, and edges must lead to known nodes. There must be a layer and no cycle.
tl::expected<LayerGraph, std::string> parse_pipedream_profile(std::string_view text, std::string_view file);

/// Returns a layer graph as the text of a PipeDream profile, which parse_pipedream_profile() can read. A
/// layer "Conv2d-4" becomes node4 with the operation Conv2d. If the names do not end in distinct numbers,
/// nodes are numbered in order. The format cannot contain the graph's overhead.
std::string pipedream_profile_text(const LayerGraph& graph);

}  // namespace penstock
