#pragma once
// Computes the next weight version from a version and its gradient. Does not change the old version.

#include <cstdint>
#include <vector>

#include "backend/torch/layer.hpp"

namespace penstock::nn {

enum class OptimizerKind : std::uint8_t { sgd, rmsprop, adam };

/// The options of an optimizer. Rules and defaults are the same as in torch.optim.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::sgd;
  double learning_rate = 0.01;
  double momentum = 0;   ///< momentum of sgd and rmsprop
  double decay = 0.99;   ///< decay of rmsprop's mean of squared gradients
  double beta1 = 0.9;    ///< decay of adam's mean of gradients
  double beta2 = 0.999;  ///< decay of adam's mean of squared gradients
  double epsilon = 1e-8;
};

/// The optimizer of one stage on one rank. It stores the moments.
class Optimizer {
 public:
  explicit Optimizer(const OptimizerOptions& options) : options_(options) {}

  /// Returns the next version of `weights`. All calls must pass the same number of tensors with the same
  /// shapes.
  Tensors step(const Tensors& weights, const Tensors& gradient);
  /// Returns the bytes of the stored moments.
  std::int64_t bytes() const;

 private:
  struct Moments {
    at::Tensor first;   // momentum, or Adam's mean of gradients
    at::Tensor second;  // mean of squared gradients
  };
  at::Tensor direction(Moments& moments, const at::Tensor& gradient) const;
  at::Tensor with_momentum(Moments& moments, const at::Tensor& direction) const;

  OptimizerOptions options_;
  std::int64_t steps_ = 0;
  std::vector<Moments> moments_;
};

}  // namespace penstock::nn
