// Computes w' = w - rate * direction. g is the gradient, t the number of the step. The direction is:
//
//     SGD      b = momentum b + g                    (b = g at first; b = g without momentum)
//     RMSProp  s = decay s + (1 - decay) g^2,   b = momentum b + g / (sqrt(s) + epsilon)
//     Adam     m = beta1 m + (1 - beta1) g,     s = beta2 s + (1 - beta2) g^2,
//              m / (1 - beta1^t) / (sqrt(s / (1 - beta2^t)) + epsilon)      (Kingma and Ba, ICLR'15)
//
// Tests: tests/backend_torch/optimizer_test.cpp.

#include "backend/torch/optimizer.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include <ATen/core/Tensor.h>

#include "backend/torch/layer.hpp"

namespace penstock::nn {
namespace {

/// Returns decay * mean + (1 - decay) * value. Treats an undefined mean as 0.
at::Tensor moved_mean(const at::Tensor& mean, double decay, const at::Tensor& value) {
  const at::Tensor share = value.mul(1 - decay);
  return mean.defined() ? mean.mul(decay).add(share) : share;
}

}  // namespace

at::Tensor Optimizer::with_momentum(Moments& moments, const at::Tensor& direction) const {
  if (options_.momentum == 0) return direction;
  moments.first = moments.first.defined() ? moments.first.mul(options_.momentum).add(direction) : direction;
  return moments.first;
}

at::Tensor Optimizer::direction(Moments& moments, const at::Tensor& gradient) const {
  switch (options_.kind) {
    case OptimizerKind::sgd:
      break;
    case OptimizerKind::rmsprop:
      moments.second = moved_mean(moments.second, options_.decay, gradient.square());
      return with_momentum(moments, gradient.div(moments.second.sqrt().add(options_.epsilon)));
    case OptimizerKind::adam: {
      // Both means begin at 0, so they are too small at first, by the factor 1 - beta^t after t steps. They
      // are divided by this factor.
      const auto t = static_cast<double>(steps_);
      moments.first = moved_mean(moments.first, options_.beta1, gradient);
      moments.second = moved_mean(moments.second, options_.beta2, gradient.square());
      const at::Tensor squares = moments.second.div(1 - std::pow(options_.beta2, t));
      return moments.first.div(1 - std::pow(options_.beta1, t)).div(squares.sqrt().add(options_.epsilon));
    }
  }
  return with_momentum(moments, gradient);
}

Tensors Optimizer::step(const Tensors& weights, const Tensors& gradient) {
  if (weights.size() != gradient.size()) throw std::logic_error("a gradient is missing, or one is too many");
  // The step is counted first, because Adam divides by 1 - beta^t, which is 0 at t = 0.
  ++steps_;
  moments_.resize(weights.size());
  Tensors next;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    next.push_back(weights[i].sub(direction(moments_[i], gradient[i]).mul(options_.learning_rate)));
  }
  return next;
}

std::int64_t Optimizer::bytes() const {
  std::int64_t sum = 0;
  for (const Moments& moments : moments_) {
    for (const at::Tensor* moment : {&moments.first, &moments.second}) {
      if (moment->defined()) sum += static_cast<std::int64_t>(moment->nbytes());
    }
  }
  return sum;
}

}  // namespace penstock::nn
