// A torch::nn::Module as a stage computes what the written-out layers compute.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "backend/torch/autograd_layer.hpp"
#include "backend/torch/layers.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend_torch/near.hpp"
#include "tests/backend_torch/torch_run.hpp"

namespace penstock::nn {
namespace {

constexpr std::int64_t kWidth = 4;

at::Tensor drawn(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::normal(0, 1, sizes, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

LayerPointer wrapped_mlp() {
  return autograd_layer([] {
    torch::nn::Sequential module(torch::nn::Linear(kWidth, 6), torch::nn::GELU(),
                                 torch::nn::Linear(6, kWidth));
    module->to(at::kDouble);
    return wrap(module);
  });
}

LayerPointer written_out_mlp() { return mlp({.width = kWidth, .hidden = 6, .outputs = kWidth}); }

TEST(AutogradLayer, ComputesWhatTheLayersOfTheSameModelCompute) {
  const at::NoGradGuard no_grad;
  const LayerPointer wrapped = wrapped_mlp();
  const LayerPointer layers = written_out_mlp();
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const Tensors weights = layers->initial_weights(generator);
  ASSERT_EQ(wrapped->weight_count(), weights.size());
  const at::Tensor input = drawn({3, kWidth}, 2);
  const at::Tensor gradient = drawn({3, kWidth}, 3);
  Output expected = layers->forward(weights, input, 1);
  Output actual = wrapped->forward(weights, input, 1);
  EXPECT_TRUE(near(actual.value, expected.value));
  const Gradients at_once = wrapped->backward(weights, gradient, wrapped->forward(weights, input, 1).record);
  expected = layers->backward_input(weights, gradient, std::move(expected.record));
  actual = wrapped->backward_input(weights, gradient, std::move(actual.record));
  EXPECT_TRUE(near(actual.value, expected.value));
  EXPECT_TRUE(near(wrapped->backward_weight(weights, actual.record),
                   layers->backward_weight(weights, expected.record)));
  EXPECT_TRUE(near(at_once.input, expected.value));
  EXPECT_TRUE(near(at_once.weights, layers->backward_weight(weights, expected.record)));
}

TEST(AutogradLayer, OfTokenNumbersHasNoInputGradient) {
  const at::NoGradGuard no_grad;
  const LayerPointer wrapped = autograd_layer([] { return wrap(torch::nn::Embedding(5, 2)); });
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const Tensors weights = wrapped->initial_weights(generator);
  const at::Tensor tokens = at::tensor({1, 4, 1}, at::kLong);
  Output output = wrapped->forward(weights, tokens, 1);
  EXPECT_TRUE(at::equal(output.value, weights[0].index_select(0, tokens)));
  output = wrapped->backward_input(weights, at::ones_like(output.value), std::move(output.record));
  EXPECT_FALSE(output.value.defined());
  const Tensors gradients = wrapped->backward_weight(weights, output.record);
  EXPECT_TRUE(at::equal(gradients.at(0).sum(1), at::tensor({0., 4., 0., 0., 2.}, at::kDouble)));
}

/// Trains a chain of MLPs with the same initial weights, as `layer` computes them.
TrainingRecord trained(const Program& program, const LayerPointer& layer) {
  std::vector<StageDefinition> stages;
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(stage));
    stages.push_back({.layer = layer, .weights = written_out_mlp()->initial_weights(generator)});
  }
  const auto numbers = [](std::int32_t microbatch) {
    return drawn({3, kWidth}, static_cast<std::uint64_t>(microbatch));
  };
  TorchRun run =
      run_on_threads(program, stages,
                     {.inputs = numbers,
                      .targets = [&](std::int32_t microbatch) { return numbers(microbatch + 1000); },
                      .optimizer = {.learning_rate = 0.1},
                      .loss_scale = 1,
                      .seed = 1,
                      .observer = {}});
  EXPECT_EQ(run.error, "");
  return std::move(run.record);
}

TEST(AutogradLayer, KeepsTheWeightsOfItsForwardWhateverStepsCome) {
  for (const char* schedule : {"1f1b-rr", "zb-h1", "gpipe"}) {
    SCOPED_TRACE(schedule);
    const auto program = generate(schedule, {.stages = 4, .microbatches = 8, .iterations = 2});
    ASSERT_TRUE(program) << program.error();
    const Program lowered = complete(*program);
    EXPECT_TRUE(near(trained(lowered, wrapped_mlp()), trained(lowered, written_out_mlp())));
  }
}

TEST(AutogradLayer, IsRecomputed) {
  const auto program = generate("1f1b", {.stages = 3, .microbatches = 4, .checkpoint = Checkpoint::always});
  ASSERT_TRUE(program) << program.error();
  const Program lowered = complete(*program);
  EXPECT_TRUE(near(trained(lowered, wrapped_mlp()), trained(lowered, written_out_mlp())));
}

}  // namespace
}  // namespace penstock::nn
