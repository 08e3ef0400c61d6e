// The optimizers against torch.optim's, step by step, in double.

#include <cstdint>
#include <memory>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/optim.h>

#include "backend/torch/optimizer.hpp"
#include "tests/backend_torch/near.hpp"

namespace penstock::nn {
namespace {

/// Ten steps on two tensors with random gradients.
template <class Reference, class Options>
void expect_steps_of(const Options& reference_options, const OptimizerOptions& options) {
  at::Generator draws = at::make_generator<at::CPUGeneratorImpl>(5);
  const auto draw = [&] {
    return Tensors{at::normal(0, 1, {3, 2}, draws, at::kDouble), at::normal(0, 1, {4}, draws, at::kDouble)};
  };
  Tensors weights = draw();
  Tensors reference_weights;
  for (const at::Tensor& weight : weights) reference_weights.push_back(weight.clone().requires_grad_(true));
  Reference reference(reference_weights, reference_options);
  Optimizer optimizer(options);
  for (int step = 0; step < 10; ++step) {
    const Tensors gradient = draw();
    for (std::size_t i = 0; i < gradient.size(); ++i)
      reference_weights[i].mutable_grad() = gradient[i].clone();
    reference.step();
    const Tensors before = {weights[0].clone(), weights[1].clone()};
    const Tensors next = optimizer.step(weights, gradient);
    EXPECT_TRUE(same(weights, before)) << "the old version has changed";
    weights = next;
    EXPECT_TRUE(near(weights, reference_weights)) << "step " << step;
  }
}

TEST(Optimizers, Sgd) {
  expect_steps_of<torch::optim::SGD>(torch::optim::SGDOptions(0.1), {.learning_rate = 0.1});
}

TEST(Optimizers, SgdWithMomentum) {
  expect_steps_of<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9),
                                     {.learning_rate = 0.1, .momentum = 0.9});
}

TEST(Optimizers, RmsProp) {
  expect_steps_of<torch::optim::RMSprop>(
      torch::optim::RMSpropOptions(0.01).alpha(0.95),
      {.kind = OptimizerKind::rmsprop, .learning_rate = 0.01, .decay = 0.95});
}

TEST(Optimizers, RmsPropWithMomentum) {
  expect_steps_of<torch::optim::RMSprop>(
      torch::optim::RMSpropOptions(0.01).momentum(0.9),
      {.kind = OptimizerKind::rmsprop, .learning_rate = 0.01, .momentum = 0.9});
}

TEST(Optimizers, Adam) {
  expect_steps_of<torch::optim::Adam>(torch::optim::AdamOptions(0.01),
                                      {.kind = OptimizerKind::adam, .learning_rate = 0.01});
}

}  // namespace
}  // namespace penstock::nn
