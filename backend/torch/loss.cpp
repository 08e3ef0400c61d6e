// Computes losses and their gradients. The mean squared error of n elements has the gradient dL/dy = 2 (y -
// t) / n. The cross entropy of n rows has the gradient dL/dy = (softmax(y) - onehot(t)) / n.

#include "backend/torch/loss.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/full_like.h>

namespace penstock::nn {
namespace {

LossValue mean_squared_error(const at::Tensor& prediction, const at::Tensor& target) {
  const at::Tensor difference = prediction.sub(target);
  return {difference.square().mean(), difference.mul(2 / static_cast<double>(difference.numel()))};
}

/// Computes the cross entropy from the logarithm of the softmax. ATen's function subtracts the largest value
/// first, because exp() of a large value overflows.
LossValue cross_entropy(const at::Tensor& prediction, const at::Tensor& target) {
  const at::Tensor logarithms = at::_log_softmax(prediction, -1, false);
  const at::Tensor classes = target.unsqueeze(-1);
  const at::Tensor of_target = logarithms.gather(-1, classes);
  const double share = 1 / static_cast<double>(target.numel());
  const at::Tensor gradient = logarithms.exp().scatter_add(-1, classes, at::full_like(of_target, -1));
  return {of_target.mean().neg(), gradient.mul(share)};
}

}  // namespace

LossValue loss_of(Loss loss, const at::Tensor& prediction, const at::Tensor& target) {
  switch (loss) {
    case Loss::mean_squared_error:
      return mean_squared_error(prediction, target);
    case Loss::cross_entropy:
      break;
  }
  return cross_entropy(prediction, target);
}

}  // namespace penstock::nn
