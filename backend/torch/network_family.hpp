#pragma once
// The module family that trains the network of an experiment on CPUs. The transports cpu-thread and
// cpu-process use it if the scenario names a network.

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "backend/executor/module_family.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock::nn {

/// Returns the family. Requires experiment.network. The experiment must outlive the result. Each stage
/// computes on the thread that calls it, because this function switches off LibTorch's own threads for the
/// whole process. Error: cut_network() fails.
tl::expected<std::unique_ptr<ModuleFamily>, std::string> network_family(const Experiment& experiment);

}  // namespace penstock::nn
