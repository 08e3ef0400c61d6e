#pragma once
// The names of the devices on which the ranks of an experiment run.

#include <string>
#include <vector>

#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// Returns the name of each rank's device. A name is empty if the cluster has no such device.
std::vector<std::string> rank_devices(const Experiment& experiment);

}  // namespace penstock
