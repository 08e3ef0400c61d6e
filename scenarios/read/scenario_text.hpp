#pragma once
// Writes a scenario of layers, or parts of a scenario, as YAML that load.hpp can read. `penstock plan -o` and
// the backend's cost files use it.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// Returns the text of a scenario file that describes the same experiment. Requires a model of layers, a
/// partition by cuts, and a named schedule with stages, replicas, routing and microbatches. `comment` becomes
/// comment lines at the top. Errors: another form of model; a cluster that the file cannot express.
tl::expected<std::string, std::string> scenario_to_yaml(const Scenario& scenario, std::string_view comment);

/// Returns the YAML part "model:" with its stages, for microbatches of `batch` samples. Omits a list that
/// contains only zeros if zero is the default.
std::string stages_to_yaml(const StageFigures& figures, std::int64_t batch);

/// Returns "cluster:" with its preset, or with its devices and links. Errors: devices reserve different
/// bytes; a switch name that cannot be derived from the names of links.
tl::expected<std::string, std::string> cluster_to_yaml(const ClusterSpec& cluster);

/// Returns `text` as a YAML scalar. The scalar is in quotes unless YAML can only read it as a name
/// ("Conv2d-4").
std::string scalar_to_yaml(std::string_view text);

/// Returns `text` as comment lines of YAML. Control characters become '?', because comments cannot contain
/// them.
std::string comment_to_yaml(std::string_view text);

}  // namespace penstock
