#pragma once
// Computes the next weight version from a version and its gradient. The old version stays unchanged.

#include <cstdint>
#include <vector>

#include "backend/torch/layer.hpp"

namespace penstock::nn {

enum class OptimizerKind : std::uint8_t { sgd, rmsprop, adam };

/// The rules and defaults of torch.optim.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::sgd;
  double learning_rate = 0.01;
  double momentum = 0;   ///< used by sgd and rmsprop
  double decay = 0.99;   ///< rmsprop: decay of the mean of squares
  double beta1 = 0.9;    ///< adam: decay of the gradient's mean
  double beta2 = 0.999;  ///< adam: decay of the mean of squares
  double epsilon = 1e-8;
};

/// The optimizer of one stage on one rank. It holds the moments.
class Optimizer {
 public:
  explicit Optimizer(const OptimizerOptions& options) : options_(options) {}

  /// Returns the next version of `weights`. All calls must have the same number of tensors, of the same
  /// shapes.
  Tensors step(const Tensors& weights, const Tensors& gradient);
  /// Returns the bytes of the moments.
  std::int64_t bytes() const;

 private:
  struct Moments {
    at::Tensor first;   // momentum, or Adam's mean
    at::Tensor second;  // mean of squares
  };
  at::Tensor direction(Moments& moments, const at::Tensor& gradient) const;
  at::Tensor with_momentum(Moments& moments, const at::Tensor& direction) const;

  OptimizerOptions options_;
  std::int64_t steps_ = 0;
  std::vector<Moments> moments_;
};

}  // namespace penstock::nn
