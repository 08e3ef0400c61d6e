#pragma once
// Writes a calibration: for a terminal, as JSON, and as a file of costs that scenarios can name.

#include <string>

#include "backend/calibration/calibration.hpp"

namespace penstock {

/// Returns a text with four parts: how the calibration was measured, a table of stages and action kinds, a
/// table of link kinds, and notes.
std::string calibration_to_table(const Calibration& calibration);
/// Returns the calibration as one JSON object. Its keys are schema_version, the conditions of the
/// measurement, stages, launches, links and notes.
std::string calibration_to_json(const Calibration& calibration);

// Writes a calibration to a file. A scenario can use the file as `model: costs.yaml` and `cluster:
// costs.yaml`.

/// Returns the measured costs as YAML with the parts `model` and `cluster`. `model` has the stages and
/// their microbatch size. `cluster` is absent if the scenario lists each link separately. A comment says
/// how the values were measured. The functions of load.hpp read this file.
std::string cost_file(const Calibration& calibration);

}  // namespace penstock
