#pragma once
// The network of an experiment as what its ranks compute with: what cpu-thread and cpu-process run when the
// scenario names a network.

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "backend/executor/module_family.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock::nn {

/// Requires experiment.network, and that the experiment outlives the answer. Each stage computes on the
/// thread that calls it: LibTorch's own threads are switched off for the process. Errors: a network or layer
/// that there is not, a program whose stages are not a chain or whose microbatches are sliced.
tl::expected<std::unique_ptr<ModuleFamily>, std::string> network_family(const Experiment& experiment);

}  // namespace penstock::nn
