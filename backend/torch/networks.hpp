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

/// A source of random data for training. The data of a microbatch depend only on the number of the
/// microbatch.
struct RandomData {
  std::vector<std::int64_t> shape;  ///< shape of a microbatch
  /// The number that limits the data, which are then whole numbers from 0 to below - 1. If `below` is 0,
  /// the data are normally distributed.
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
  /// True if the stages were exported from PyTorch. Such stages form a chain, and are valid for one device
  /// and one shape only.
  bool exported = false;
  at::DeviceType device = at::kCPU;  ///< where exported stages run
};

/// One size of a network, such as a width, that the user can set.
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

/// Returns the network that `spec` names, for microbatches of `samples` samples. Networks of the table
/// compute in single precision, and exported graphs in their own type. Fails if the name or a size is
/// unknown, if sizes do not fit together, or if graphs cannot be read. The error begins with the position
/// of `spec` in the scenario file.
tl::expected<Network, std::string> make_network(const NetworkSpec& spec, std::int64_t samples);

/// Returns the name of a piece in profiles and scenarios, such as "Linear-3".
std::string piece_name(const Model& model, std::int32_t piece);

// Converts exceptions of LibTorch to errors while a network is built. For example, LibTorch throws if the
// user has chosen sizes that exceed the memory.

/// Calls `make` and returns its result, which must be a tl::expected with a text as its error. If LibTorch
/// throws, returns an error. Its text has the network's name, its position in the file, and LibTorch's text
/// without the backtrace.
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

/// Makes the network of the experiment and cuts it into the program's stages. Requires experiment.network.
/// Fails if the network, a size or a layer is unknown. Also fails if the program's stages do not form a
/// chain, or if its microbatches are sliced.
tl::expected<CutNetwork, std::string> cut_network(const Experiment& experiment);

}  // namespace penstock::nn
