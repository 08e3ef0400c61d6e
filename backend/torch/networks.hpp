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

/// Random data: what a microbatch holds depends on its number alone.
struct RandomData {
  std::vector<std::int64_t> shape;    ///< of a microbatch
  std::int64_t below = 0;             ///< whole numbers from 0 to below - 1; 0: normal noise
  std::uint64_t use = 0;              ///< tells the tensors of a microbatch apart
  at::ScalarType noise = at::kFloat;  ///< of what is not numbers

  at::Tensor of(std::int32_t microbatch) const;
};

/// A model with data to train it on.
struct Network {
  Model model;
  RandomData inputs;
  RandomData targets;
};

/// One of its sizes.
struct NetworkSize {
  std::string_view name;
  std::int64_t usual = 1;  ///< where it is left out
  std::string_view meaning;
};
/// One row of the table of networks.
struct NetworkInfo {
  std::string_view name;
  std::string_view summary;
  std::vector<NetworkSize> sizes;
};
const std::vector<NetworkInfo>& network_table();

/// The network with `samples` a microbatch, its activations in single precision. Errors, which start with the
/// spec's place: an unknown name or size, sizes that do not go together.
tl::expected<Network, std::string> make_network(const NetworkSpec& spec, std::int64_t samples);

/// "Linear-3": the name of a piece in profiles and scenarios.
std::string piece_name(const Model& model, std::int32_t piece);

}  // namespace penstock::nn
