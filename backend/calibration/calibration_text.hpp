#pragma once
// A calibration for a terminal and for programs.

#include <string>

#include "backend/calibration/calibration.hpp"

namespace penstock {

/// How it was measured; a row a stage and kind, a row a kind of link; notes.
std::string calibration_to_table(const Calibration& calibration);
/// One JSON object: schema_version, how it was measured, stages, launches, links, notes.
std::string calibration_to_json(const Calibration& calibration);

}  // namespace penstock
