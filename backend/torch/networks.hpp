#pragma once
// The networks that a scenario can name (`model.network`), with data to train them on.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/torch/models.hpp"
#include "scenarios/model/model.hpp"

namespace penstock::nn {

/// Random data that depend only on the number of the microbatch.
struct RandomData {
  std::vector<std::int64_t> shape;    ///< shape of a microbatch
  std::int64_t below = 0;             ///< data are whole numbers from 0 to below - 1; 0: normal noise
  std::uint64_t use = 0;              ///< distinguishes the tensors of a microbatch
  at::ScalarType noise = at::kFloat;  ///< type of the noise

  at::Tensor of(std::int32_t microbatch) const;
};

/// A model with data to train it on.
struct Network {
  Model model;
  RandomData inputs;
  RandomData targets;
};

/// One size of a network.
struct NetworkSize {
  std::string_view name;
  std::int64_t usual = 1;  ///< default value
  std::string_view meaning;
};
/// One row of the table of networks.
struct NetworkInfo {
  std::string_view name;
  std::string_view summary;
  std::vector<NetworkSize> sizes;
};
const std::vector<NetworkInfo>& network_table();

/// Makes the network with `samples` samples a microbatch, and activations in single precision. Errors begin
/// with the place of the spec: an unknown name or size, or sizes that do not fit together.
tl::expected<Network, std::string> make_network(const NetworkSpec& spec, std::int64_t samples);

/// Returns the name of a piece in profiles and scenarios: "Linear-3".
std::string piece_name(const Model& model, std::int32_t piece);

}  // namespace penstock::nn
