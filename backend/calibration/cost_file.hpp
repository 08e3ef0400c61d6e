#pragma once
// A calibration as a file that scenarios name: `model: costs.yaml` and `cluster: costs.yaml`.

#include <string>

#include "backend/calibration/calibration.hpp"

namespace penstock {

/// YAML with the parts `model` (stages, and the samples that they hold for) and `cluster` (unless that is
/// given link by link); comments say how it was measured. load.hpp reads it back as the same figures.
std::string cost_file(const Calibration& calibration);

}  // namespace penstock
