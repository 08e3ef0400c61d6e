#pragma once
// What training holds beside weights: gradients, and the optimizer's state. One table for both kinds of
// models, those whose bytes are given and those whose parameters are counted.

#include <cstdint>

#include "scenarios/read/scenario.hpp"

namespace penstock {

/// Values that the optimizer keeps for each weight: running means of its gradient, or of its square.
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

/// For a byte of weights.
struct BytesPerWeightByte {
  std::int64_t gradients = 1;
  std::int64_t optimizer_state = 0;
};

/// In full precision all values are alike. Otherwise weights have 2 bytes, and what has 4 is twice as much
/// for a byte of them: the optimizer's values, its copy of the weights, and the gradients where they are
/// full.
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

/// For a parameter of a model on named devices: the optimizer's copy of it, and its values, in 4 bytes each.
constexpr std::int32_t optimizer_bytes(Optimizer optimizer) { return 4 * (1 + state_values(optimizer)); }

}  // namespace penstock
