#pragma once
// Writes a calibration to a file. A scenario can use the file as `model: costs.yaml` and `cluster:
// costs.yaml`.

#include <string>

#include "backend/calibration/calibration.hpp"

namespace penstock {

/// Returns YAML with the parts `model` and `cluster`. `model` has the stages and their microbatch size.
/// `cluster` is absent if the scenario lists each link separately. A comment says how the figures were
/// measured. load.hpp reads the same figures back.
std::string cost_file(const Calibration& calibration);

}  // namespace penstock
