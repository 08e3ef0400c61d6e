#pragma once
// A program file as an experiment of its own: unit costs and free links, unless --set says otherwise.

#include <filesystem>
#include <span>
#include <tl/expected.hpp>

#include "scenarios/read/override.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// The scenario of the file at `path`, or the program there as a scenario. Errors as load_scenario() has
/// them.
tl::expected<Scenario, std::string> load_scenario_or_program(const std::filesystem::path& path,
                                                             std::span<const Override> overrides = {});

}  // namespace penstock
