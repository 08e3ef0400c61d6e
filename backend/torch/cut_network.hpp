#pragma once
// The network of an experiment, cut into the experiment's stages. The module families for CPUs and GPUs start
// from it.

#include <string>
#include <tl/expected.hpp>

#include "backend/torch/models.hpp"
#include "backend/torch/networks.hpp"
#include "backend/torch/optimizer.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock::nn {

struct CutNetwork {
  Network network;
  Cut cut;  ///< one element for each stage of the program
  OptimizerOptions optimizer;
};

/// Makes and cuts the network. Requires experiment.network. Errors: an unknown network, size or layer; a
/// program whose stages are no chain or whose microbatches are sliced.
tl::expected<CutNetwork, std::string> cut_network(const Experiment& experiment);

}  // namespace penstock::nn
