#pragma once
// Writes a scenario of layers as the YAML file that load.hpp reads. Used by `penstock plan -o`.

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "scenarios/scenario.hpp"

namespace penstock {

/// The file of a scenario whose model is layers, whose partition is cuts and whose schedule is a name with
/// stages, replicas, routing and microbatches: it reads back as the same experiment. `comment` goes above it,
/// a line each. Errors: another model or a cluster given link by link, which has no such form.
tl::expected<std::string, std::string> scenario_to_yaml(const Scenario& scenario, std::string_view comment);

}  // namespace penstock
