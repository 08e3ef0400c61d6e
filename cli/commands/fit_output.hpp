#pragma once
// Prints costs that were fitted to measured iterations, and their errors, as text and JSON.

#include <cstddef>
#include <string>

#include "sim/measured/fit_iterations.hpp"

namespace penstock {

/// Returns the costs and then the errors. `width` limits the lines of tables; 0: no limit.
std::string fit_text(const FitReport& report, std::size_t width);
/// Returns the file of costs that `model.fitted` reads: {schema_version, kind: "fit", iteration_costs, fit:
/// {constants, told, groups, held_out, left_out, unpriced_lines}}.
std::string fit_json(const FitReport& report);

}  // namespace penstock
