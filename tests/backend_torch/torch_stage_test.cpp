// What a stage is asked beyond mathematics: failures in words, other precisions, draws that do not depend on
// the cut.

#include <cmath>
#include <cstdint>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "backend/torch/layers.hpp"
#include "backend/torch/models.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend_torch/torch_run.hpp"
#include "tests/backend_torch/unsplit_transformer.hpp"

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

}  // namespace
}  // namespace penstock::nn
