#pragma once
// The memory that training needs beside weights: gradients and optimizer state. The same table serves models
// with given bytes and models with counted parameters.

#include <cstdint>

#include "scenarios/read/scenario.hpp"

namespace penstock {

/// Returns the number of values that the optimizer stores for each weight: running means of its gradient or
/// of the gradient's square.
constexpr std::int32_t state_values(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::sgd:
      return 0;
    case Optimizer::momentum:
    case Optimizer::rmsprop:
      return 1;
    case Optimizer::adam:
      return 2;
  }
  return 0;
}

/// The bytes of gradients and optimizer state for each byte of weights.
struct BytesPerWeightByte {
  std::int64_t gradients = 1;
  std::int64_t optimizer_state = 0;
};

/// Returns the bytes for each byte of weights. In full precision all values have one size. Otherwise weights
/// have 2 bytes, and values of 4 bytes count twice: the optimizer's values, its copy of the weights, and full
/// gradients.
constexpr BytesPerWeightByte bytes_per_weight_byte(Optimizer optimizer, Precision precision) {
  const std::int64_t values = state_values(optimizer);
  switch (precision) {
    case Precision::full:
      return {.gradients = 1, .optimizer_state = values};
    case Precision::mixed:
      return {.gradients = 1, .optimizer_state = 2 * (values + 1)};
    case Precision::mixed_full_gradients:
      return {.gradients = 2, .optimizer_state = 2 * (values + 1)};
  }
  return {};
}

/// Returns the bytes for each parameter of a model on named devices: the optimizer's copy of the parameter
/// and its values, with 4 bytes each.
constexpr std::int32_t optimizer_bytes(Optimizer optimizer) { return 4 * (1 + state_values(optimizer)); }

}  // namespace penstock
