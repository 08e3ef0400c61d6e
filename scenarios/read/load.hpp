#pragma once
// Reads a scenario: YAML (or JSON) text, the files that it names, and the edits of `--set`. The schema is
// in README.md; experiment.hpp turns the result into what an engine takes.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "scenarios/read/override.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// The scenario in the file at `path`. Errors: "FILE:LINE:COLUMN: KEY.PATH: expected ..., got ...", or
/// "--set KEY: ..." for what an override brought in.
tl::expected<Scenario, std::string> load_scenario(const std::filesystem::path& path,
                                                  std::span<const Override> overrides = {});

/// The same from text. `name` is what messages call it; file names in it are relative to `base_directory`.
tl::expected<Scenario, std::string> parse_scenario(std::string_view text, std::string_view name,
                                                   const std::filesystem::path& base_directory,
                                                   std::span<const Override> overrides = {});

/// A scenario file (an empty path: `{}`) with overrides in place, as text that reads back as the same
/// scenario from any directory: files that it names are named whole. Errors: as above, as far as they are the
/// document's and the overrides' own.
tl::expected<std::string, std::string> edited_scenario(const std::filesystem::path& path,
                                                       std::span<const Override> overrides);

}  // namespace penstock
