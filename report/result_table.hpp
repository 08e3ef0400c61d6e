#pragma once
// The terminal's view of a Result: headline figures, a table of ranks, memory by category, links.

#include <string>

#include "report/result.hpp"

namespace penstock {

/// Lines of text, a line break at the end. Durations and bytes have readable units.
std::string result_to_table(const Result& result);

}  // namespace penstock
