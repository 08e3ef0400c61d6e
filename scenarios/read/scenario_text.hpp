#pragma once
// Writes a scenario of layers, or parts of one, as the YAML that load.hpp reads. Used by `penstock plan -o`
// and by the backend's cost files.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// Returns the file of a scenario, which reads back as the same experiment. The model must be layers, the
/// partition cuts, and the schedule a name with stages, replicas, routing and microbatches. `comment` becomes
/// comment lines at the top. Errors: another model, or a cluster given link by link, which the file cannot
/// express.
tl::expected<std::string, std::string> scenario_to_yaml(const Scenario& scenario, std::string_view comment);

/// Returns "model:" with its stages, for microbatches of `batch` samples. A list with only zeros is omitted
/// if that has the same meaning.
std::string stages_to_yaml(const StageFigures& figures, std::int64_t batch);

/// Returns "cluster:" with its preset. Error: a cluster given link by link.
tl::expected<std::string, std::string> cluster_to_yaml(const ClusterSpec& cluster);

/// Returns `text` as a YAML scalar that reads back as `text`. It is in quotes unless it can only be a name
/// ("Conv2d-4").
std::string scalar_to_yaml(std::string_view text);

/// Returns `text` as comment lines of YAML. Control characters become '?', because comments cannot contain
/// them.
std::string comment_to_yaml(std::string_view text);

}  // namespace penstock
