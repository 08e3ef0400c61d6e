#pragma once
// Makes the neural network of an experiment on GPUs. The transports cuda-local and nccl run it if the
// scenario names a network.

#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/cuda/local_run.hpp"
#include "backend/cuda/workers.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock::nn {

/// Returns the family of modules and their codec. Requires experiment.network. The experiment must outlive
/// the result. The weights, data and activations of a rank's modules are on its device. Ranks without a place
/// get no modules. Error: cut_network() fails.
tl::expected<CudaModules, std::string> cuda_network(const Experiment& experiment,
                                                    const std::vector<std::optional<CudaPlace>>& places);

}  // namespace penstock::nn
