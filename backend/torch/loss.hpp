#pragma once
// What a last stage minimizes.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace penstock::nn {

enum class Loss : std::uint8_t {
  mean_squared_error,  // over all elements
  cross_entropy,       // of the last dimension's softmax with class numbers, mean over everything else
};

struct LossValue {
  at::Tensor value;     ///< a scalar
  at::Tensor gradient;  ///< for the prediction
};

/// Requires a target of the prediction's shape, for cross entropy without its last dimension.
LossValue loss_of(Loss loss, const at::Tensor& prediction, const at::Tensor& target);

}  // namespace penstock::nn
