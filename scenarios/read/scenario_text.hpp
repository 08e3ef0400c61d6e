#pragma once
// Writes a scenario of layers, or single parts, as the YAML file that load.hpp reads. Used by `penstock plan
// -o` and by the backend's cost files.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// The file of a scenario whose model is layers, whose partition is cuts and whose schedule is a name with
/// stages, replicas, routing and microbatches: it reads back as the same experiment. `comment` goes above it,
/// a line each. Errors: another model or a cluster given link by link, which has no such form.
tl::expected<std::string, std::string> scenario_to_yaml(const Scenario& scenario, std::string_view comment);

/// "model:" with its stages, for microbatches of `batch` samples. Lists whose entries are all 0 are left out
/// where that means the same.
std::string stages_to_yaml(const StageFigures& figures, std::int64_t batch);

/// "cluster:" with its preset. Error: a cluster given link by link.
tl::expected<std::string, std::string> cluster_to_yaml(const ClusterSpec& cluster);

/// `text` as a scalar, in quotes unless it is plainly a name ("Conv2d-4"): what is read there is `text`,
/// whatever it holds.
std::string scalar_to_yaml(std::string_view text);

/// `text` as comment lines of YAML; control characters, which none can hold, become '?'.
std::string comment_to_yaml(std::string_view text);

}  // namespace penstock
