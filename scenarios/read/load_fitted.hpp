#pragma once
// Reads `model: {fitted: FILE, hidden: H, heads: A, layers: L, sequence: S}`, and the file of fitted costs
// that it names.

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

namespace penstock {

/// Returns the keys of `model:` that may stand beside `fitted`.
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

}  // namespace penstock
