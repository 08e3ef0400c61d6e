#pragma once
// The network of an experiment on GPUs, which cuda-local and nccl run if the scenario names one.

#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/cuda/local_run.hpp"
#include "backend/cuda/workers.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock::nn {

/// Makes the modules and their codec. Requires experiment.network, and that the experiment outlives the
/// result. A rank's modules have their weights, data and activations on its device; ranks without a place get
/// no modules. Errors: those of cut_network().
tl::expected<CudaModules, std::string> cuda_network(const Experiment& experiment,
                                                    const std::vector<std::optional<CudaPlace>>& places);

}  // namespace penstock::nn
