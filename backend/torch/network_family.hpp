#pragma once
// The module family for the network of an experiment, which cpu-thread and cpu-process run if the scenario
// names a network.

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "backend/executor/module_family.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock::nn {

/// Makes the family. Requires experiment.network, and that the experiment outlives the result. Each stage
/// computes on the thread that calls it, because LibTorch's own threads are switched off for the process.
/// Errors: an unknown network or layer; a program whose stages are no chain or whose microbatches are sliced.
tl::expected<std::unique_ptr<ModuleFamily>, std::string> network_family(const Experiment& experiment);

}  // namespace penstock::nn
