#pragma once
// Prints a calibration for a terminal or as JSON.

#include <string>

#include "backend/calibration/calibration.hpp"

namespace penstock {

/// Returns how it was measured, a table with a row for each stage and kind, a table with a row for each kind
/// of link, and notes.
std::string calibration_to_table(const Calibration& calibration);
/// Returns one JSON object: schema_version, how it was measured, stages, launches, links, notes.
std::string calibration_to_json(const Calibration& calibration);

}  // namespace penstock
