#pragma once
// The losses that a last stage can minimize.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace penstock::nn {

enum class Loss : std::uint8_t {
  mean_squared_error,  // mean over all elements
  cross_entropy,       // softmax of the last dimension against class numbers; mean over everything else
};

struct LossValue {
  at::Tensor value;     ///< a scalar
  at::Tensor gradient;  ///< gradient of the prediction
};

/// Computes the loss. The target must have the prediction's shape; for cross entropy without the last
/// dimension.
LossValue loss_of(Loss loss, const at::Tensor& prediction, const at::Tensor& target);

}  // namespace penstock::nn
