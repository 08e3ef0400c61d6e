#pragma once
// Costs out of measured iterations, and how well they predict, as text and JSON.

#include <cstddef>
#include <string>

#include "sim/measured/fit_iterations.hpp"

namespace penstock {

/// The costs, then the errors. `width` is that of the tables' lines; 0: any.
std::string fit_text(const FitReport& report, std::size_t width);
/// The file of costs that `model.fitted` reads: {schema_version, kind: "fit", iteration_costs, fit:
/// {constants, told, groups, held_out, left_out, unpriced_lines}}.
std::string fit_json(const FitReport& report);

}  // namespace penstock
