#pragma once
// Cuts the network of an experiment into the experiment's stages. The module families for CPUs and GPUs use
// it.

#include <string>
#include <tl/expected.hpp>

#include "backend/torch/models.hpp"
#include "backend/torch/networks.hpp"
#include "backend/torch/optimizer.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock::nn {

struct CutNetwork {
  Network network;
  Cut cut;  ///< pieces of each stage of the program
  OptimizerOptions optimizer;
};

/// Makes and cuts the network. Requires experiment.network. Error: the network, a size or a layer is unknown,
/// the program's stages do not form a chain, or its microbatches are sliced.
tl::expected<CutNetwork, std::string> cut_network(const Experiment& experiment);

}  // namespace penstock::nn
