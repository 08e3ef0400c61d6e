#pragma once
// Formats a calibration as tables for a terminal or as JSON.

#include <string>

#include "backend/calibration/calibration.hpp"

namespace penstock {

/// Returns a text with four parts: how the calibration was measured, a table of stages and action kinds, a
/// table of link kinds, and notes.
std::string calibration_to_table(const Calibration& calibration);
/// Returns one JSON object. Its keys are schema_version, how the calibration was measured, stages, launches,
/// links and notes.
std::string calibration_to_json(const Calibration& calibration);

}  // namespace penstock
