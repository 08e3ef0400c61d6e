// Tests other properties of stages: error messages, other precisions, and random numbers that do not depend
// on the cut.

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "backend/torch/layers.hpp"
#include "backend/torch/networks.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/backend_torch/reference_training.hpp"
#include "tests/backend_torch/torch_run.hpp"

namespace penstock::nn {
namespace {

constexpr TransformerShape kTwoBlocks{
    .tokens = 7, .positions = 4, .width = 4, .heads = 2, .blocks = 4, .dropout = 0.2};

TorchRun run_transformer(const char* schedule, const Shape& shape, at::ScalarType type = at::kDouble) {
  const Program program = complete(*generate(schedule, shape));
  return run_on_threads(
      program, even_stages(kTwoBlocks, program.stage_count(), {.seed = 5, .type = type}),
      {.inputs = [](std::int32_t microbatch) { return tokens_of(kTwoBlocks, microbatch); },
       .targets = [](std::int32_t microbatch) { return targets_of(kTwoBlocks, microbatch); },
       .optimizer = {.learning_rate = 0.1},
       .loss_scale = 1,
       .seed = 1,
       .observer = {}});
}

TEST(TorchStage, WeightsAndDropoutDoNotDependOnTheCut) {
  const TorchRun whole = run_transformer("gpipe", {.stages = 1, .microbatches = 4, .iterations = 2});
  ASSERT_EQ(whole.record.losses.size(), 8U);
  for (const std::int32_t stages : {2, 3, 6}) {
    const TorchRun run = run_transformer("gpipe", {.stages = stages, .microbatches = 4, .iterations = 2});
    ASSERT_EQ(run.error, "");
    for (const auto& [microbatch, loss] : whole.record.losses) {
      EXPECT_NEAR(run.record.losses.at(microbatch), loss, 1e-9) << stages << " stages";
    }
  }
}

TEST(TorchStage, MoreStagesThanPiecesPassTheirInputOn) {
  const TorchRun whole = run_transformer("1f1b", {.stages = 1, .microbatches = 2, .iterations = 2});
  const TorchRun run = run_transformer("1f1b", {.stages = 8, .microbatches = 2, .iterations = 2});
  ASSERT_EQ(run.error, "");
  EXPECT_NEAR(run.record.losses.at(3), whole.record.losses.at(3), 1e-9);
}

TEST(TorchStage, SinglePrecisionIsNearDoubleAndNotTheSame) {
  const TorchRun exact = run_transformer("1f1b", {.stages = 2, .microbatches = 4});
  const TorchRun single = run_transformer("1f1b", {.stages = 2, .microbatches = 4}, at::kFloat);
  ASSERT_EQ(single.error, "");
  EXPECT_EQ(single.record.gradients.at({0, 0, 1}).front().scalar_type(), at::kFloat);
  const double distance = std::abs(single.record.losses.at(0) - exact.record.losses.at(0));
  EXPECT_GT(distance, 0);
  EXPECT_LT(distance, 1e-4);
}

TEST(TorchStage, AShapeThatDoesNotFitIsAnErrorOfItsActionWithoutABacktrace) {
  const Program program = complete(*generate("1f1b", {.stages = 2, .microbatches = 2}));
  std::vector<StageDefinition> stages;
  for (const std::int64_t width : {4, 5}) {
    stages.push_back({.layer = linear(width, width),
                      .weights = {at::ones({width, width}, at::kDouble), at::ones({width}, at::kDouble)}});
  }
  const auto ones = [](std::int32_t) { return at::ones({3, 4}, at::kDouble); };
  const TorchRun run = run_on_threads(
      program, stages,
      {.inputs = ones, .targets = ones, .optimizer = {}, .loss_scale = 1, .seed = 1, .observer = {}});
  EXPECT_EQ(run.error.find("rank 1: 1F0: "), 0U) << run.error;
  EXPECT_NE(run.error.find("cannot be multiplied"), std::string::npos) << run.error;
  EXPECT_EQ(run.error.find("frame #"), std::string::npos) << run.error;
}

// Tests stage graphs that are not chains. If several stages read an output, its gradients are added. If a
// stage reads several outputs, its inputs are concatenated.

constexpr std::int64_t kBranchWidth = 4;

at::Tensor drawn(std::uint64_t seed) {
  return at::normal(0, 1, {3, kBranchWidth}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}
at::Tensor input_of(std::int32_t microbatch) { return drawn(2 * static_cast<std::uint64_t>(microbatch)); }
at::Tensor target_of(std::int32_t microbatch) {
  return drawn(2 * static_cast<std::uint64_t>(microbatch) + 1);
}

StageDefinition stage_of(std::uint64_t number, Join join = Join::sum, std::int64_t inputs = kBranchWidth) {
  StageDefinition stage{
      .layer = mlp({.width = inputs, .hidden = 6, .outputs = kBranchWidth}), .weights = {}, .join = join};
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(100 + number);
  stage.weights = stage.layer->initial_weights(generator);
  return stage;
}

at::Tensor perceptron(const Tensors& w, const at::Tensor& x) {
  return at::matmul(at::gelu(at::matmul(x, w[0].t()) + w[1]), w[2].t()) + w[3];
}

void expect_numbers(const std::string& text, const std::vector<StageDefinition>& stages,
                    const LossOfWeights& loss) {
  const Program program = read_program(text);
  const TorchRun run = run_on_threads(program, stages,
                                      {.inputs = input_of,
                                       .targets = target_of,
                                       .optimizer = {.learning_rate = 0.1},
                                       .loss_scale = 0.5,
                                       .seed = 1,
                                       .observer = {}});
  ASSERT_EQ(run.error, "");
  ReferenceTask task{.weights = {}, .loss = loss, .loss_scale = 0.5, .learning_rate = 0.1};
  for (const StageDefinition& stage : stages) task.weights.push_back(stage.weights);
  EXPECT_TRUE(near(run.record, train_unsplit(program, task)));
}

constexpr const char* kDiamond =
    "penstock program 1\nschedule diamond\nmicrobatches 2\niterations 3\nedges 0>1 0>2 1>3 2>3\n"
    "stage 0: rank 0\nstage 1: rank 1\nstage 2: rank 2\nstage 3: rank 3\n"
    "rank 0: 0F0 0F1 0B0 0B1 0STEP\nrank 1: 1F0 1F1 1B0 1B1 1STEP\n"
    "rank 2: 2F0 2F1 2I0 2I1 2W0 2W1 2STEP\nrank 3: 3F0 3B0 3F1 3B1 3STEP\n";

TEST(Branches, ADiamondThatSumsItsArms) {
  expect_numbers(kDiamond, {stage_of(0), stage_of(1), stage_of(2), stage_of(3)},
                 [](const std::vector<Tensors>& w, std::int32_t microbatch) {
                   const at::Tensor x = perceptron(w[0], input_of(microbatch));
                   const at::Tensor y = perceptron(w[3], perceptron(w[1], x) + perceptron(w[2], x));
                   return at::mse_loss(y, target_of(microbatch));
                 });
}

TEST(Branches, ADiamondThatPutsItsArmsSideBySide) {
  expect_numbers(kDiamond,
                 {stage_of(0), stage_of(1), stage_of(2), stage_of(3, Join::concatenate, 2 * kBranchWidth)},
                 [](const std::vector<Tensors>& w, std::int32_t microbatch) {
                   const at::Tensor x = perceptron(w[0], input_of(microbatch));
                   const at::Tensor arms = at::cat({perceptron(w[1], x), perceptron(w[2], x)}, -1);
                   return at::mse_loss(perceptron(w[3], arms), target_of(microbatch));
                 });
}

TEST(Branches, ASkipConnectionBackToItsOwnRank) {
  expect_numbers(
      "penstock program 1\nschedule skip\nmicrobatches 2\niterations 2\nedges 0>1 0>2 1>2\n"
      "stage 0: rank 0\nstage 1: rank 1\nstage 2: rank 0\n"
      "rank 0: 0F0 0F1 2F0 2B0 2F1 2B1 0B0 0B1 0STEP 2STEP\nrank 1: 1F0 1F1 1B0 1B1 1STEP\n",
      {stage_of(0), stage_of(1), stage_of(2)}, [](const std::vector<Tensors>& w, std::int32_t microbatch) {
        const at::Tensor x = perceptron(w[0], input_of(microbatch));
        return at::mse_loss(perceptron(w[2], x + perceptron(w[1], x)), target_of(microbatch));
      });
}

TEST(Branches, TwoHeadsAddTheirLosses) {
  expect_numbers(
      "penstock program 1\nschedule heads\nmicrobatches 2\niterations 2\nedges 0>1 0>2\n"
      "stage 0: rank 0\nstage 1: rank 1\nstage 2: rank 2\n"
      "rank 0: 0F0 0F1 0B0 0B1 0STEP\nrank 1: 1F0 1F1 1B0 1B1 1STEP\nrank 2: 2F0 2B0 2F1 2B1 2STEP\n",
      {stage_of(0), stage_of(1), stage_of(2)}, [](const std::vector<Tensors>& w, std::int32_t microbatch) {
        const at::Tensor x = perceptron(w[0], input_of(microbatch));
        const at::Tensor target = target_of(microbatch);
        return at::mse_loss(perceptron(w[1], x), target) + at::mse_loss(perceptron(w[2], x), target);
      });
}

}  // namespace
}  // namespace penstock::nn
