// Compares the forward pass and both halves of the backward pass of each layer with autograd of its formula,
// in double precision.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "backend/torch/layers.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend_torch/torch_run.hpp"

namespace penstock::nn {
namespace {

using Formula = std::function<at::Tensor(const Tensors& weights, const at::Tensor& input)>;

at::Generator generator(std::uint64_t seed) { return at::make_generator<at::CPUGeneratorImpl>(seed); }

at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed = 1) {
  return at::normal(0, 1, sizes, generator(seed), at::kDouble);
}

/// Returns random weights. The initial weights are not suitable, because some of them are 0 or 1.
Tensors random_weights(const Layer& layer) {
  at::Generator draws = generator(2);
  Tensors weights = layer.initial_weights(draws);
  for (at::Tensor& weight : weights)
    weight = weight.add(at::normal(0, 0.3, weight.sizes(), draws, at::kDouble));
  return weights;
}

Tensors leaves(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.clone().requires_grad_(true));
  return copies;
}

/// The results of a layer for one input and one gradient of its output.
struct Computed {
  at::Tensor output;
  at::Tensor of_input;
  Tensors of_weights;
};

Computed computed_by(const Layer& layer, const Tensors& weights, const at::Tensor& input,
                     const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  auto [output, left] = layer.forward(weights, input, 1);
  const Gradients at_once = layer.backward(weights, gradient, left);
  auto [of_input, record] = layer.backward_input(weights, gradient, std::move(left));
  Computed computed{output, of_input, layer.backward_weight(weights, record)};
  EXPECT_TRUE(same(computed.of_weights, at_once.weights)) << "B is not I and W";
  EXPECT_EQ(of_input.defined(), at_once.input.defined());
  if (of_input.defined()) {
    EXPECT_TRUE(at::equal(of_input, at_once.input)) << "B is not I and W";
  }
  return computed;
}

Computed differentiated(const Formula& formula, const Tensors& weights, const at::Tensor& input,
                        const at::Tensor& gradient) {
  const Tensors w = leaves(weights);
  const at::Tensor x = input.is_floating_point() ? input.clone().requires_grad_(true) : input;
  Computed computed{.output = formula(w, x), .of_input = {}, .of_weights = {}};
  Tensors arguments = w;
  if (x.requires_grad()) arguments.push_back(x);
  Tensors gradients = torch::autograd::grad({computed.output}, arguments, {gradient});
  if (x.requires_grad()) {
    computed.of_input = gradients.back();
    gradients.pop_back();
  }
  computed.of_weights = std::move(gradients);
  return computed;
}

void expect_derivatives_of(const Formula& formula, const LayerPointer& layer, const at::Tensor& input) {
  const Tensors weights = random_weights(*layer);
  ASSERT_EQ(weights.size(), layer->weight_count());
  const at::Tensor gradient = random(formula(weights, input).sizes(), 3);
  const Computed expected = differentiated(formula, weights, input, gradient);
  const Computed actual = computed_by(*layer, weights, input, gradient);
  EXPECT_TRUE(near(actual.output, expected.output));
  EXPECT_TRUE(near(actual.of_weights, expected.of_weights));
  EXPECT_EQ(actual.of_input.defined(), expected.of_input.defined());
  if (expected.of_input.defined()) {
    EXPECT_TRUE(near(actual.of_input, expected.of_input));
  }
}

// --- the formulas -----------------------------------------------------------------------------------------

at::Tensor affine(const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& shift) {
  return at::matmul(x, matrix.t()) + shift;
}

at::Tensor smooth(const at::Tensor& x) { return 0.5 * x * (1 + at::erf(x / std::sqrt(2.0))); }

at::Tensor normalized(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift) {
  const at::Tensor mean = x.mean({-1}, true);
  const at::Tensor variance = (x - mean).square().mean({-1}, true);
  return (x - mean) / at::sqrt(variance + 1e-5) * scale + shift;
}

at::Tensor attention_of(const at::Tensor& x, std::int64_t heads) {
  const at::Tensor parts = x.view({x.size(0), x.size(1), 3, heads, -1}).permute({2, 0, 3, 1, 4});
  return at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, /*is_causal=*/true)
      .transpose(1, 2)
      .reshape({x.size(0), x.size(1), -1});
}

at::Tensor perceptron(const Tensors& w, std::size_t first, const at::Tensor& x) {
  return affine(smooth(affine(x, w[first], w[first + 1])), w[first + 2], w[first + 3]);
}

TEST(Layers, Linear) {
  expect_derivatives_of([](const Tensors& w, const at::Tensor& x) { return affine(x, w[0], w[1]); },
                        linear(3, 5), random({2, 4, 3}));
}

TEST(Layers, Gelu) {
  expect_derivatives_of([](const Tensors&, const at::Tensor& x) { return smooth(x); }, gelu(),
                        random({4, 6}) * 3);
}

TEST(Layers, LayerNorm) {
  expect_derivatives_of([](const Tensors& w, const at::Tensor& x) { return normalized(x, w[0], w[1]); },
                        layer_norm(6), random({2, 3, 6}));
}

TEST(Layers, EmbeddingOfRepeatedTokensAndAShorterSequence) {
  const at::Tensor tokens = at::tensor({1, 1, 4, 0, 4, 1}, at::kLong).view({2, 3});
  expect_derivatives_of(
      [](const Tensors& w, const at::Tensor& x) {
        return w[0].index_select(0, x.flatten()).view({2, 3, -1}) + w[1].slice(0, 0, 3);
      },
      embedding(5, 4, 6), tokens);
}

TEST(Layers, CausalAttention) {
  expect_derivatives_of([](const Tensors&, const at::Tensor& x) { return attention_of(x, 2); },
                        causal_attention(2), random({2, 5, 12}));
}

TEST(Layers, AttentionNeverLooksAhead) {
  const at::NoGradGuard no_grad;
  const LayerPointer layer = causal_attention(1);
  at::Tensor input = random({1, 4, 6});
  const at::Tensor before = layer->forward({}, input, 1).value;
  input = input.clone();
  input.select(1, 3).fill_(7);
  const at::Tensor after = layer->forward({}, input, 1).value;
  EXPECT_TRUE(at::equal(before.narrow(1, 0, 3), after.narrow(1, 0, 3)));
  EXPECT_FALSE(at::equal(before.select(1, 3), after.select(1, 3)));
}

TEST(Layers, ConvolutionWithAndWithoutStride) {
  for (const std::int64_t stride : {1, 2}) {
    expect_derivatives_of(
        [&](const Tensors& w, const at::Tensor& x) {
          return at::conv2d(x, w[0], w[1], at::IntArrayRef({stride, stride}), at::IntArrayRef({1, 1}));
        },
        convolution({.inputs = 2, .outputs = 3, .stride = stride}), random({2, 2, 5, 4}));
  }
}

TEST(Layers, MeanPool) {
  expect_derivatives_of([](const Tensors&, const at::Tensor& x) { return x.sum({2, 3}) / 12; }, mean_pool(),
                        random({2, 5, 3, 4}));
}

TEST(Layers, ResidualOfALinear) {
  expect_derivatives_of([](const Tensors& w, const at::Tensor& x) { return x + affine(x, w[0], w[1]); },
                        residual(linear(3, 3)), random({4, 3}));
}

TEST(Layers, AnEmptySequencePassesItsInputOn) {
  expect_derivatives_of([](const Tensors&, const at::Tensor& x) { return x * 1; }, sequential({}),
                        random({4, 3}));
}

TEST(Layers, Mlp) {
  expect_derivatives_of([](const Tensors& w, const at::Tensor& x) { return perceptron(w, 0, x); },
                        mlp({.width = 3, .hidden = 7, .outputs = 2}), random({4, 3}));
}

TEST(Layers, TransformerBlock) {
  expect_derivatives_of(
      [](const Tensors& w, const at::Tensor& x) {
        const at::Tensor looked = attention_of(affine(normalized(x, w[0], w[1]), w[2], w[3]), 2);
        const at::Tensor y = x + affine(looked, w[4], w[5]);
        return y + perceptron(w, 8, normalized(y, w[6], w[7]));
      },
      transformer_block({.width = 4, .heads = 2, .hidden = 8}), random({2, 3, 4}));
}

TEST(Layers, ConvNet) {
  expect_derivatives_of(
      [](const Tensors& w, const at::Tensor& x) {
        const at::Tensor y = smooth(at::conv2d(x, w[0], w[1], 1, 1));
        const at::Tensor z = smooth(at::conv2d(y, w[2], w[3], 2, 1));
        return affine(z.mean({2, 3}), w[4], w[5]);
      },
      conv_net({.channels = 2, .hidden = 4, .outputs = 3}), random({2, 2, 6, 6}));
}

// --- dropout ---------------------------------------------------------------------------------------------

TEST(Layers, DropoutScalesWhatItKeepsSoThatTheMeanStays) {
  const LayerPointer layer = dropout(0.25, 3);
  const at::Tensor factors = layer->forward({}, at::ones({100, 100}, at::kDouble), 1).value;
  const at::Tensor dropped = factors.eq(0);
  EXPECT_TRUE(at::logical_or(dropped, factors.eq(1 / 0.75)).all().item().toBool());
  EXPECT_NEAR(dropped.to(at::kDouble).mean().item().toDouble(), 0.25, 0.02);
  expect_derivatives_of([&](const Tensors&, const at::Tensor& x) { return x * factors; }, layer,
                        random({100, 100}));
}

TEST(Layers, DropoutDependsOnTheSeedAndTheStreamAndNothingElse) {
  const at::NoGradGuard no_grad;
  const at::Tensor input = at::ones({10, 10}, at::kDouble);
  const at::Tensor first = dropout(0.5, 3)->forward({}, input, 1).value;
  EXPECT_TRUE(at::equal(first, dropout(0.5, 3)->forward({}, input, 1).value));
  EXPECT_FALSE(at::equal(first, dropout(0.5, 3)->forward({}, input, 2).value));
  EXPECT_FALSE(at::equal(first, dropout(0.5, 4)->forward({}, input, 1).value));
}

// --- losses ----------------------------------------------------------------------------------------------

void expect_loss(Loss loss, const at::Tensor& prediction, const at::Tensor& target,
                 const std::function<at::Tensor(const at::Tensor&)>& formula) {
  const at::Tensor leaf = prediction.clone().requires_grad_(true);
  const at::Tensor expected = formula(leaf);
  const at::Tensor gradient = torch::autograd::grad({expected}, {leaf}).front();
  const at::NoGradGuard no_grad;
  const LossValue actual = loss_of(loss, prediction, target);
  EXPECT_TRUE(near(actual.value, expected));
  EXPECT_TRUE(near(actual.gradient, gradient));
}

TEST(Losses, MeanSquaredError) {
  const at::Tensor target = random({3, 4}, 9);
  expect_loss(Loss::mean_squared_error, random({3, 4}), target,
              [&](const at::Tensor& y) { return at::mse_loss(y, target); });
}

TEST(Losses, CrossEntropy) {
  const at::Tensor target = at::tensor({0, 3, 3, 1, 2, 0}, at::kLong).view({2, 3});
  expect_loss(Loss::cross_entropy, random({2, 3, 4}), target,
              [&](const at::Tensor& y) { return at::cross_entropy_loss(y.view({6, 4}), target.flatten()); });
}

// Tests that a torch::nn::Module as a stage computes the same numbers as Penstock's own layers.

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

/// Trains a chain of MLPs with the layer `layer` and returns the record. All calls use the same initial
/// weights.
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
