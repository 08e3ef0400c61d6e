// Tests that every schedule trains like the model without stages. Losses and gradients must equal those of
// autograd, in double precision.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/torch/networks.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/backend/program_facts.hpp"
#include "tests/backend_torch/reference_training.hpp"
#include "tests/backend_torch/torch_run.hpp"

namespace penstock::nn {
namespace {

constexpr double kLearningRate = 0.1;

/// Returns a shape with as many blocks as stages, so that no stage is empty.
TransformerShape shape_for(const Program& program) {
  return {.tokens = 7, .positions = 4, .width = 4, .heads = 2, .blocks = program.stage_count()};
}

Training training_of(const TransformerShape& shape, double loss_scale) {
  return {.inputs = [shape](std::int32_t microbatch) { return tokens_of(shape, microbatch); },
          .targets = [shape](std::int32_t microbatch) { return targets_of(shape, microbatch); },
          .optimizer = {.learning_rate = kLearningRate},
          .loss_scale = loss_scale,
          .seed = 1,
          .observer = {}};
}

/// Returns the factor of a microbatch's loss. The loss of a minibatch is the mean over its microbatches.
double loss_scale_of(const Program& program) {
  return program.update == UpdateRule::microbatch ? 1.0 : 1.0 / program.unit_count();
}

TorchRun run_transformer(const Program& program) {
  const TransformerShape shape = shape_for(program);
  return run_on_threads(program, even_stages(shape, program.stage_count(), {.seed = 11}),
                        training_of(shape, loss_scale_of(program)));
}

TrainingRecord unsplit_transformer(const Program& program) {
  const TransformerShape shape = shape_for(program);
  ReferenceTask task{.weights = {},
                     .loss =
                         [shape](const std::vector<Tensors>& stages, std::int32_t microbatch) {
                           Tensors all;
                           for (const Tensors& of_stage : stages)
                             std::ranges::copy(of_stage, std::back_inserter(all));
                           return unsplit_loss(shape, all, microbatch);
                         },
                     .loss_scale = loss_scale_of(program),
                     .learning_rate = kLearningRate};
  for (StageDefinition& stage : even_stages(shape, program.stage_count(), {.seed = 11})) {
    task.weights.push_back(std::move(stage.weights));
  }
  return train_unsplit(program, task);
}

void expect_unsplit_numbers(const Program& program) {
  const TorchRun run = run_transformer(program);
  ASSERT_EQ(run.error, "") << to_text(program);
  EXPECT_TRUE(near(run.record, unsplit_transformer(program))) << to_text(program);
}

void expect_unsplit_numbers_in_processes(const Program& program) {
  const TransformerShape shape = shape_for(program);
  EXPECT_EQ(difference_in_processes(program, even_stages(shape, program.stage_count(), {.seed = 11}),
                                    training_of(shape, loss_scale_of(program)), unsplit_transformer(program)),
            "")
      << to_text(program);
}

Program generated(std::string_view name, const Shape& shape) {
  const auto program = generate(name, shape);
  if (!program) throw std::runtime_error(program.error());
  return complete(*program);
}

// --- every generator -------------------------------------------------------------------------------------

std::string name_of(const Shape& shape) {
  return " K" + std::to_string(shape.stages) + "M" + std::to_string(shape.microbatches) +
         (shape.virtual_stages == 1 ? "" : "v" + std::to_string(shape.virtual_stages));
}

/// Returns the shapes with K in {1, 2, 4} and M in {1, 2, 4, 8}. If the schedule accepts a number of chunks,
/// a rank has two.
std::vector<Shape> shapes_of(const ScheduleInfo& schedule) {
  const bool chunked = takes_chunks(schedule);
  std::vector<Shape> shapes;
  for (const std::int32_t stages : {1, 2, 4}) {
    for (const std::int32_t microbatches : {1, 2, 4, 8}) {
      for (const std::int32_t chunks : {1, 2}) {
        if (chunks > 1 && !chunked) continue;
        shapes.push_back(
            {.stages = stages, .microbatches = microbatches, .virtual_stages = chunks, .iterations = 2});
      }
    }
  }
  return shapes;
}

/// Returns the first shape that the schedule accepts, in the order of stages and then microbatches.
std::optional<Shape> smallest_shape(const ScheduleInfo& schedule) {
  for (std::int32_t stages = 1; stages <= 8; ++stages) {
    for (std::int32_t microbatches = 1; microbatches <= 32; ++microbatches) {
      for (const std::int32_t chunks : {1, 2}) {
        const Shape shape{.stages = stages, .microbatches = microbatches, .virtual_stages = chunks};
        if (generate(schedule.name, shape)) return shape;
      }
    }
  }
  return std::nullopt;
}

class Schedules : public testing::TestWithParam<std::string> {};

/// Calls `expect` for the schedule's smallest shape, and for the shapes of shapes_of() that it accepts.
/// Prints these shapes.
void for_shapes_of(const ScheduleInfo& schedule, void (*expect)(const Program&)) {
  const std::optional<Shape> smallest = smallest_shape(schedule);
  ASSERT_TRUE(smallest) << schedule.constraint;
  expect(generated(schedule.name, *smallest));
  std::string ran;
  std::string refused;
  for (const Shape& shape : shapes_of(schedule)) {
    SCOPED_TRACE(name_of(shape));
    const auto program = generate(schedule.name, shape);
    if (program) expect(complete(*program));
    (program ? ran : refused) += name_of(shape);
  }
  std::cout << "  " << schedule.name << ": smallest" << name_of(*smallest) << "; ran" << ran << "; refused"
            << (refused.empty() ? " none" : refused) << '\n';
}

TEST_P(Schedules, TrainAsTheUnsplitModelDoes) {
  for_shapes_of(*find_schedule(GetParam()), expect_unsplit_numbers);
}

TEST_P(Schedules, TrainAsTheUnsplitModelDoesInProcesses) {
  for_shapes_of(*find_schedule(GetParam()), expect_unsplit_numbers_in_processes);
}

/// Returns the schedules whose stages form a chain, because a network runs on such stages only.
std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (!divides_output(extra_stages_of(schedule.name))) all.emplace_back(schedule.name);
  }
  return all;
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, Schedules, testing::ValuesIn(names()), test_name);

// --- versions of weights (PipeDream, SOSP'19, section 3.3) ------------------------------------------------

constexpr std::int32_t kNumberedStages = 4;

Program asynchronous(WeightPolicy weights) {
  return generated("1f1b-rr", {.stages = kNumberedStages, .microbatches = 10, .weights = weights});
}

/// Returns the weight version with weight stashing: w(t+1) = w(t) - rate * gradient of f(w_1(t-n+1),
/// w_2(t-n+2), ..., w_n(t)).
std::int32_t stashed(std::int32_t stage, std::int32_t microbatch) {
  return std::max(0, microbatch - (kNumberedStages - 1) + stage);
}
/// Returns the weight version with vertical sync: w(t+1) = w(t) - rate * gradient of f(w_1(t-n+1),
/// w_2(t-n+1), ..., w_n(t-n+1)).
std::int32_t of_input_stage(std::int32_t, std::int32_t microbatch) {
  return std::max(0, microbatch - (kNumberedStages - 1));
}

void expect_rule(const Program& program, std::int32_t (*rule)(std::int32_t, std::int32_t)) {
  const ProgramFacts facts = facts_of(program);
  for (const auto& [key, version] : facts.forward_version) {
    EXPECT_EQ(version, rule(key.first, key.second)) << "stage " << key.first << ", microbatch " << key.second;
    EXPECT_EQ(facts.backward_version.at(key), version);
  }
  expect_unsplit_numbers(program);
}

TEST(WeightVersions, StashingUsesTheForwardsVersionInTheBackward) {
  expect_rule(asynchronous(WeightPolicy::stash), stashed);
}

TEST(WeightVersions, VerticalSyncUsesTheInputStagesVersionEverywhere) {
  expect_rule(asynchronous(WeightPolicy::vertical_sync), of_input_stage);
}

TEST(WeightVersions, WithoutStashingTheGradientsAreOthers) {
  const TorchRun latest = run_transformer(asynchronous(WeightPolicy::latest));
  ASSERT_EQ(latest.error, "");
  const TrainingRecord stash = unsplit_transformer(asynchronous(WeightPolicy::stash));
  // The last stage has only one version at any time. On the first stage, microbatch 1 is the first with two
  // versions.
  EXPECT_TRUE(near(latest.record.gradients.at({0, 0, 1}), stash.gradients.at({0, 0, 1})));
  EXPECT_FALSE(near(latest.record.gradients.at({0, 0, 2}), stash.gradients.at({0, 0, 2})));
}

// --- replicas and shards ---------------------------------------------------------------------------------

TEST(Replicas, ReduceTheirGradients) {
  for (const std::vector<std::int32_t>& replicas :
       {std::vector<std::int32_t>{2, 1}, {3, 1}, {3, 2}, {4, 2, 2}, {2, 2}}) {
    Shape shape{.stages = static_cast<std::int32_t>(replicas.size()), .microbatches = 12};
    shape.replicas = replicas;
    expect_unsplit_numbers(generated("1f1b-rr", shape));
  }
}

TEST(Replicas, ReduceBucketByBucket) {
  for (const std::vector<std::int32_t>& replicas : {std::vector<std::int32_t>{2, 1}, {3, 2}, {4, 3}}) {
    Shape shape{.stages = static_cast<std::int32_t>(replicas.size()), .microbatches = 12};
    shape.replicas = replicas;
    shape.buckets = {2};
    expect_unsplit_numbers(generated("1f1b-rr", shape));
  }
  Shape copies{.stages = 2, .microbatches = 4, .iterations = 2, .data_parallel = 2};
  copies.buckets = {3, 1};
  for (const std::int32_t sharding : {0, 2}) {
    copies.sharding = sharding;
    expect_unsplit_numbers(generated("1f1b", copies));
  }
}

TEST(Replicas, ThatDoNotReduceGoApart) {
  Shape shape{.stages = 2, .microbatches = 8};
  shape.replicas = {2, 1};
  shape.replica_sync = ReplicaSync::off;
  const Program program = generated("1f1b-rr", shape);
  expect_unsplit_numbers(program);
  const TorchRun run = run_transformer(program);
  EXPECT_FALSE(near(run.record.gradients.at({0, 0, 2}), run.record.gradients.at({1, 0, 2})));
}

TEST(Replicas, ShardTheirOptimizerTheirGradientsAndTheirWeights) {
  for (const std::int32_t sharding : {1, 2, 3}) {
    Shape shape{.stages = 3, .microbatches = 6, .iterations = 3};
    shape.replicas = {3};
    shape.sharding = sharding;
    expect_unsplit_numbers(generated("data-parallel", shape));
    for (const char* schedule : {"1f1b", "interleaved", "zb-h1", "chimera", "dualpipe-v"}) {
      Shape pipeline{.stages = 2, .microbatches = 8, .iterations = 2};
      if (std::string_view(schedule) == "interleaved") pipeline.virtual_stages = 2;
      pipeline.data_parallel = 2;
      pipeline.sharding = sharding;
      expect_unsplit_numbers(generated(schedule, pipeline));
    }
  }
}

// --- recomputation ----------------------------------------------------------------------------------------

TrainingRecord with_dropout(const char* schedule, Checkpoint checkpoint, double probability) {
  const Program program =
      generated(schedule, {.stages = 4, .microbatches = 4, .iterations = 2, .checkpoint = checkpoint});
  TransformerShape shape = shape_for(program);
  shape.dropout = probability;
  TorchRun run = run_on_threads(program, even_stages(shape, program.stage_count(), {.seed = 11}),
                                training_of(shape, loss_scale_of(program)));
  EXPECT_EQ(run.error, "");
  return run.record;
}

TEST(Recomputation, ReplaysDropoutBitByBit) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    const TrainingRecord kept = with_dropout(schedule, Checkpoint::never, 0.3);
    for (const Checkpoint checkpoint : {Checkpoint::always, Checkpoint::except_last}) {
      const TrainingRecord recomputed = with_dropout(schedule, checkpoint, 0.3);
      EXPECT_EQ(recomputed.losses, kept.losses);
      ASSERT_EQ(recomputed.gradients.size(), kept.gradients.size());
      for (const auto& [key, gradient] : kept.gradients) {
        EXPECT_TRUE(same(recomputed.gradients.at(key), gradient));
      }
    }
  }
}

TEST(Recomputation, OfDropoutMattersBecauseMasksDifferBetweenMicrobatchesAndChangeTheLoss) {
  const TrainingRecord with = with_dropout("gpipe", Checkpoint::always, 0.3);
  const TrainingRecord without = with_dropout("gpipe", Checkpoint::always, 0);
  EXPECT_GT(std::abs(with.losses.at(0) - without.losses.at(0)), 1e-3);
}

TEST(Recomputation, DropoutIsTheSameInEverySchedule) {
  EXPECT_TRUE(
      near(with_dropout("1f1b", Checkpoint::never, 0.3), with_dropout("gpipe", Checkpoint::never, 0.3)));
}

}  // namespace
}  // namespace penstock::nn
