#pragma once
// Reads a scenario from YAML (or JSON) text, the files that it names, and the edits of `--set`. README.md
// describes the schema. experiment.hpp prepares the result for an engine.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "scenarios/read/document_edits.hpp"
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

/// Returns the text of a scenario file, with the overrides applied. An empty `path` means the scenario
/// `{}`. File names in the result are full paths, so that it describes the same scenario in any directory.
/// Errors: those errors of load_scenario() that concern only the document and the overrides.
tl::expected<std::string, std::string> edited_scenario(const std::filesystem::path& path,
                                                       std::span<const Override> overrides);

// Reads a program file as a scenario with unit costs and links that take no time. --set can change these
// defaults.

/// Reads the file at `path` as a scenario. If it is a program file, returns a scenario with this program.
/// If `path` is "-", reads standard input, whose content decides which of the two it is. Errors: the errors
/// of load_scenario().
tl::expected<Scenario, std::string> load_scenario_or_program(const std::filesystem::path& path,
                                                             std::span<const Override> overrides = {});

// The form of a file, derived from the end of its name.

/// Returns true if `name` ends in `suffix` (such as ".csv"), in capital or small letters.
bool has_file_suffix(std::string_view name, std::string_view suffix);

/// Returns true if the file name is that of a program file, which ends in .psched or .csv.
bool names_program(std::string_view file);

/// Returns true if a text from standard input is a program: it begins like a .psched file, or it has no
/// colon, as PyTorch's .csv. A scenario is a mapping, so it has a colon unless it is empty or `{}`.
bool is_program_text(std::string_view text);

}  // namespace penstock
