#pragma once
// The networks that a scenario can name (`model.network`), and random data to train them.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/torch/models.hpp"
#include "scenarios/model/model.hpp"

namespace penstock::nn {

/// A source of random data. The data of a microbatch depend only on its number.
struct RandomData {
  std::vector<std::int64_t> shape;  ///< shape of a microbatch
  /// Data are whole numbers from 0 to below - 1; if 0, data are normally distributed.
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

/// Makes the network with `samples` samples per microbatch and activations in single precision. Error: the
/// name or a size is unknown, or sizes do not fit together. The text begins with the place of `spec` in the
/// file.
tl::expected<Network, std::string> make_network(const NetworkSpec& spec, std::int64_t samples);

/// Returns the name of a piece in profiles and scenarios, such as "Linear-3".
std::string piece_name(const Model& model, std::int32_t piece);

}  // namespace penstock::nn
