#pragma once
// The networks that a scenario can name (`model.network`), and random data to train them.

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <tl/expected.hpp>

#include "backend/torch/models.hpp"
#include "backend/torch/stage_weights.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock::nn {

/// A source of random data. The data of a microbatch depend only on its number.
struct RandomData {
  std::vector<std::int64_t> shape;  ///< shape of a microbatch
  /// The data are whole numbers from 0 to below - 1. If `below` is 0, the data are normally distributed.
  std::int64_t below = 0;
  std::uint64_t use = 0;  ///< number that is different for inputs and targets, so that their data differ
  at::ScalarType noise = at::kFloat;  ///< type of normally distributed data

  at::Tensor of(std::int32_t microbatch) const;
};

/// A model and the data to train it.
struct Network {
  Model model;
  RandomData inputs;
  RandomData targets;
  at::ScalarType type = at::kFloat;  ///< type of weights and activations
  /// True for stages that were exported from PyTorch. They form a chain, and hold for one device and one
  /// shape.
  bool exported = false;
  at::DeviceType device = at::kCPU;  ///< where exported stages run
};

/// A size of a network that the user can set.
struct NetworkSize {
  std::string_view name;
  std::int64_t usual = 1;  ///< default value of this size
  std::string_view meaning;
};
/// The description of one network.
struct NetworkInfo {
  std::string_view name;
  std::string_view summary;
  std::vector<NetworkSize> sizes;
};
const std::vector<NetworkInfo>& network_table();

/// Makes the network with `samples` samples in a microbatch. Networks of the table compute in single
/// precision, and exported graphs in their own type. Fails if the name or a size is unknown, if sizes do not
/// fit together, or if graphs cannot be read. The error begins with the place of `spec` in the file.
tl::expected<Network, std::string> make_network(const NetworkSpec& spec, std::int64_t samples);

/// Returns the name of a piece in profiles and scenarios, such as "Linear-3".
std::string piece_name(const Model& model, std::int32_t piece);

// Converts exceptions that LibTorch throws while a network is built to errors. For example, a user may choose
// sizes that exceed the memory.

/// Returns the result of `make`, which must be a tl::expected with a text as its error. If LibTorch throws,
/// returns an error text with the network's name, its place in the file, and LibTorch's text without the
/// backtrace.
template <class Make>
std::invoke_result_t<Make> made_network(const NetworkSpec& spec, Make make) {
  try {
    return make();
  } catch (const c10::Error& error) {
    return tl::unexpected(
        (spec.place.empty() ? std::string() : spec.place + ": ") + "the network " + spec.name +
        " cannot be made with these sizes; take smaller ones: " + error.what_without_backtrace());
  }
}

// Cuts the network of an experiment into the experiment's stages. The module families for CPUs and GPUs use
// it.

struct CutNetwork {
  Network network;
  Cut cut;  ///< pieces of each stage of the program
  OptimizerOptions optimizer;
};

/// Makes and cuts the network. Requires experiment.network. Fails if the network, a size or a layer is
/// unknown, if the program's stages do not form a chain, or if its microbatches are sliced.
tl::expected<CutNetwork, std::string> cut_network(const Experiment& experiment);

}  // namespace penstock::nn
