#pragma once
// Prints the costs that were fitted to measured iterations, and their errors, as text and as JSON.

#include <cstddef>
#include <string>

#include "sim/measured/fit_iterations.hpp"

namespace penstock {

/// Returns the costs and then the errors. `width` is the longest table line in characters; 0 means no limit.
std::string fit_text(const FitReport& report, std::size_t width);
/// Returns the cost file that `model.fitted` reads: {schema_version, kind: "fit", iteration_costs, fit:
/// {constants, told, groups, held_out, left_out, unpriced_lines}}.
std::string fit_json(const FitReport& report);

}  // namespace penstock
