#pragma once
// From one weight version and its gradient to the next one; the old version stays as it is.

#include <cstdint>
#include <vector>

#include "backend/torch/layer.hpp"

namespace penstock::nn {

enum class OptimizerKind : std::uint8_t { sgd, rmsprop, adam };

/// The rules and defaults are those of torch.optim.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::sgd;
  double learning_rate = 0.01;
  double momentum = 0;   ///< sgd, rmsprop
  double decay = 0.99;   ///< rmsprop: of the squares' mean
  double beta1 = 0.9;    ///< adam: decay of the gradient's mean
  double beta2 = 0.999;  ///< adam: decay of the squares' mean
  double epsilon = 1e-8;
};

/// Of one stage on one rank; holds the moments.
class Optimizer {
 public:
  explicit Optimizer(const OptimizerOptions& options) : options_(options) {}

  /// The next version of `weights`. Requires the same number of tensors, of the same shapes, in all calls.
  Tensors step(const Tensors& weights, const Tensors& gradient);
  /// Of the moments.
  std::int64_t bytes() const;

 private:
  struct Moments {
    at::Tensor first;   // momentum; Adam's mean
    at::Tensor second;  // mean of squares
  };
  at::Tensor direction(Moments& moments, const at::Tensor& gradient) const;
  at::Tensor with_momentum(Moments& moments, const at::Tensor& direction) const;

  OptimizerOptions options_;
  std::int64_t steps_ = 0;
  std::vector<Moments> moments_;
};

}  // namespace penstock::nn
