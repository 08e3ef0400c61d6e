#pragma once
// What the ranks of an experiment run on.

#include <string>
#include <vector>

#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// The name of each rank's device; empty where the cluster has no such device.
std::vector<std::string> rank_devices(const Experiment& experiment);

}  // namespace penstock
