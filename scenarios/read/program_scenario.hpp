#pragma once
// Reads a program file as an experiment with unit costs and free links, which --set can change.

#include <filesystem>
#include <span>
#include <tl/expected.hpp>

#include "scenarios/read/override.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// Reads the scenario in the file at `path`, or a program file as a scenario. Errors: the errors of
/// load_scenario().
tl::expected<Scenario, std::string> load_scenario_or_program(const std::filesystem::path& path,
                                                             std::span<const Override> overrides = {});

}  // namespace penstock
