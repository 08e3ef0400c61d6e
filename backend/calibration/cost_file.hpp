#pragma once
// Writes a calibration as a file that scenarios can name: `model: costs.yaml` and `cluster: costs.yaml`.

#include <string>

#include "backend/calibration/calibration.hpp"

namespace penstock {

/// Returns YAML with the parts `model` (stages, and the microbatch size for which they hold) and `cluster`
/// (unless it is given link by link). Comments say how it was measured. load.hpp reads the same figures back.
std::string cost_file(const Calibration& calibration);

}  // namespace penstock
