#pragma once
// `model: {fitted: FILE, hidden: H, heads: A, layers: L, sequence: S}` and the file of costs that it names.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "scenarios/model/fitted_model.hpp"
#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/keys.hpp"
#include "scenarios/read/reader.hpp"

namespace penstock {

/// Keys beside `fitted`.
std::span<const Key> keys_beside_fitted();

/// All but the degrees. Problems: a key that is missing, a file that cannot be read or says something else.
FittedModel read_fitted(const MappingReader& model, Problem& problem);
/// Tensor and data parallelism; complains of other degrees.
void set_degrees(FittedModel& model, const Node& document, const Parallel& degrees, Problem& problem);

/// A file of costs: JSON or YAML. Error: "FILE:LINE:COLUMN: KEY: expected .., got ..".
tl::expected<IterationCosts, std::string> load_iteration_costs(const std::filesystem::path& path,
                                                               std::string_view name);
/// The file that reads back as `costs`, as JSON.
std::string iteration_costs_to_json(const IterationCosts& costs);

}  // namespace penstock
