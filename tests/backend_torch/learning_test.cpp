// Tests that a small transformer learns a rule from generated sequences. All synchronous schedules must give
// equal results.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/optim.h>

#include "backend/torch/networks.hpp"
#include "backend/torch/stage_weights.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/program_facts.hpp"
#include "tests/backend_torch/torch_run.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock::nn {
namespace {

constexpr std::int32_t kStages = 4;
constexpr std::int32_t kMicrobatches = 4;
constexpr std::int32_t kSteps = 200;
constexpr std::int64_t kSequences = 4;  // the number of sequences in a microbatch
constexpr TransformerShape kShape{.tokens = 11, .positions = 8, .width = 16, .heads = 2, .blocks = 4};

/// Returns sequences x, 3 x + 1, 3 (3 x + 1) + 1, ... modulo the number of tokens. They have one token more
/// than the model's input.
at::Tensor sequences(std::int32_t microbatch) {
  const at::Generator generator =
      at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(microbatch));
  std::vector<at::Tensor> tokens = {at::randint(0, kShape.tokens, {kSequences}, generator, at::kLong)};
  for (std::int64_t i = 0; i < kShape.positions; ++i) {
    tokens.push_back((tokens.back() * 3 + 1).remainder(kShape.tokens));
  }
  return at::stack(tokens, 1);
}

/// Returns the sequences of unit `number` of a run. A unit is one microbatch, or a whole minibatch.
at::Tensor sequences_of(std::int32_t number, std::int32_t microbatches) {
  std::vector<at::Tensor> parts;
  for (std::int32_t i = 0; i < microbatches; ++i) parts.push_back(sequences(number * microbatches + i));
  return at::cat(parts);
}

struct Learned {
  std::vector<double> losses;  ///< for each step, the mean loss of its microbatches before the update
  double predicted_seconds_a_step = 0;
};

/// Trains with one update for each minibatch of kMicrobatches microbatches. An asynchronous schedule
/// processes the whole minibatch as one unit.
Learned learn(const std::string& schedule) {
  const bool whole = find_schedule(schedule)->asynchronous;
  Shape shape{.stages = kStages, .microbatches = kMicrobatches, .iterations = kSteps};
  if (whole) {
    shape.microbatches = kSteps;
    shape.iterations = 1;
  }
  const std::int32_t joined = whole ? kMicrobatches : 1;
  const Program program = complete(*generate(schedule, shape));
  const TorchRun run = run_on_threads(
      program, even_stages(kShape, program.stage_count(), {.seed = 3}),
      {.inputs = [=](std::int32_t m) { return sequences_of(m, joined).narrow(1, 0, kShape.positions); },
       .targets = [=](std::int32_t m) { return sequences_of(m, joined).narrow(1, 1, kShape.positions); },
       .optimizer = {.kind = OptimizerKind::adam, .learning_rate = 0.003},
       .loss_scale = whole ? 1.0 : 1.0 / kMicrobatches,
       .seed = 1,
       .observer = {}});
  EXPECT_EQ(run.error, "");
  Learned learned{.losses = std::vector<double>(kSteps), .predicted_seconds_a_step = 0};
  const std::int32_t a_step = kMicrobatches / joined;
  for (const auto& [unit, loss] : run.record.losses) {
    learned.losses[static_cast<std::size_t>(unit / a_step)] += loss / a_step;
  }
  constexpr Ns kForwardNs = 1'000'000;
  const Ns makespan = makespan_ns(uniform_experiment(
      schedule, shape, {.forward_ns = joined * kForwardNs, .backward_ns = 2 * joined * kForwardNs}));
  learned.predicted_seconds_a_step = static_cast<double>(makespan) * 1e-9 / kSteps;
  return learned;
}

/// Returns the mean loss of the last 20 steps.
double last_loss(const Learned& learned) {
  double sum = 0;
  for (std::size_t i = learned.losses.size() - 20; i < learned.losses.size(); ++i) sum += learned.losses[i];
  return sum / 20;
}

void print(const std::string& schedule, const Learned& learned) {
  std::printf("  %-8s predicted %.2f ms a step; loss at step (predicted s)", schedule.c_str(),
              learned.predicted_seconds_a_step * 1e3);
  for (const int step : {0, 50, 100, 150, kSteps - 1}) {
    std::printf("  %d: %.4f (%.2f)", step, learned.losses[static_cast<std::size_t>(step)],
                learned.predicted_seconds_a_step * step);
  }
  std::printf("\n");
}

TEST(Learning, IsTheSameStepByStepInEverySynchronousSchedule) {
  const Learned naive = learn("naive");
  print("naive", naive);
  EXPECT_LT(last_loss(naive), 0.25 * naive.losses.front()) << "the model does not learn";
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    const Learned learned = learn(schedule);
    print(schedule, learned);
    for (std::size_t step = 0; step < naive.losses.size(); ++step) {
      ASSERT_NEAR(learned.losses[step], naive.losses[step], 1e-9) << schedule << ", step " << step;
    }
    EXPECT_LT(learned.predicted_seconds_a_step, naive.predicted_seconds_a_step);
  }
}

TEST(Learning, ConvergesAsynchronouslyWithTheStalenessOfItsStages) {
  const Learned learned = learn("1f1b-rr");
  print("1f1b-rr", learned);
  EXPECT_LT(last_loss(learned), 0.25 * learned.losses.front());
  const ProgramFacts facts =
      facts_of(complete(*generate("1f1b-rr", {.stages = kStages, .microbatches = kSteps})));
  for (const auto& [key, version] : facts.forward_version) {
    const auto [stage, minibatch] = key;
    EXPECT_EQ(minibatch - version, std::min(minibatch, kStages - 1 - stage));
  }
  EXPECT_LT(learned.predicted_seconds_a_step, learn("1f1b").predicted_seconds_a_step);
}

// Compares each step of the optimizers with torch.optim, in double precision.

/// Compares ten steps on two tensors with random gradients.
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
