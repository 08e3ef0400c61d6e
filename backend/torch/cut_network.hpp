#pragma once
// The network of an experiment, cut as its stages are: what families of modules on CPUs and GPUs start from.

#include <string>
#include <tl/expected.hpp>

#include "backend/torch/models.hpp"
#include "backend/torch/networks.hpp"
#include "backend/torch/optimizer.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock::nn {

struct CutNetwork {
  Network network;
  Cut cut;  ///< one entry a stage of the program
  OptimizerOptions optimizer;
};

/// Requires experiment.network. Errors: a network, size or layer that there is not, a program whose stages
/// are not a chain or whose microbatches are sliced.
tl::expected<CutNetwork, std::string> cut_network(const Experiment& experiment);

}  // namespace penstock::nn
