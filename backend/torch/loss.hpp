#pragma once
// The losses that a last stage can compute.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace penstock::nn {

enum class Loss : std::uint8_t {
  mean_squared_error,  // mean of the squared errors of all elements
  // The cross entropy between the softmax of the last dimension and class numbers. The result is the mean
  // over all other dimensions.
  cross_entropy,
};

struct LossValue {
  at::Tensor value;     ///< loss, a scalar
  at::Tensor gradient;  ///< gradient of the loss with respect to the prediction
};

/// Computes a loss and its gradient. The target must have the prediction's shape. For cross entropy, it must
/// have that shape without the last dimension.
LossValue loss_of(Loss loss, const at::Tensor& prediction, const at::Tensor& target);

}  // namespace penstock::nn
