// Tests the costs of a divided output layer (schedules 1f1b-vocab-1 and 1f1b-vocab-2) and of an encoder on
// all ranks (1f1b-encoder-first and 1f1b-encoder-bubbles): on named devices, for stated stages, and without a
// model. Also tests the errors for models that do not say what these stages are.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

constexpr std::string_view kUndivided = R"(
model: {huggingface: llama-3.1-70b.json, sequence: 8192}
cluster: {device: h100-sxm, nodes: 4}
parallel: {tensor: 8}
schedule: {name: 1f1b, stages: 4}
training: {global_batch_size: 64}
)";

Experiment prepared_as(std::string_view text, const std::vector<Override>& overrides) {
  const auto scenario = parse_scenario(text, "a.yaml", source_path("scenarios/library/models"), overrides);
  EXPECT_TRUE(scenario) << scenario.error();
  const auto experiment = prepare(scenario.value());
  EXPECT_TRUE(experiment) << experiment.error().message;
  return experiment.value();
}

std::string output_fault(std::string_view text, const std::vector<Override>& overrides) {
  const auto scenario = parse_scenario(text, "a.yaml", source_path("scenarios/library/models"), overrides);
  if (!scenario) return scenario.error();
  const auto experiment = prepare(*scenario);
  return experiment ? "no fault" : experiment.error().message;
}

Override schedule_named(const char* name) { return {.key = "schedule.name", .value = name}; }

constexpr Ns kBesideKernels = 100'000;  // each F and B has 0.1 ms beside its kernels

TEST(OutputSlices, ShareTheTimeAndTheWeightsOfTheHead) {
  const std::vector<StageCost> whole = prepared_as(kUndivided, {}).costs.stages;
  const Experiment divided = prepared_as(kUndivided, {schedule_named("1f1b-vocab-1")});
  const std::vector<StageCost>& stages = divided.costs.stages;
  ASSERT_EQ(stages.size(), 9);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(stages[stage].forward_ns, whole[1].forward_ns) << "20 layers, and no head behind the last";
    EXPECT_EQ(stages[stage].kept, whole[1].kept);
  }
  const Ns forward_ns = whole[3].forward_ns - whole[2].forward_ns;
  const Ns backward_ns = whole[3].backward_ns - whole[2].backward_ns;
  for (std::size_t slice = 4; slice < 8; ++slice) {
    EXPECT_NEAR(static_cast<double>(stages[slice].forward_ns - kBesideKernels),
                static_cast<double>(forward_ns) / 4, 2);
    EXPECT_NEAR(static_cast<double>(stages[slice].backward_ns - kBesideKernels),
                static_cast<double>(backward_ns) / 4, 2);
    EXPECT_NEAR(static_cast<double>(stages[slice].weights),
                static_cast<double>(whole[3].weights - whole[2].weights) / 4, 2);
    EXPECT_GT(stages[slice].kept, 2 * 8192 * 8192 / 8) << "the head's input, and the logits";
  }
  EXPECT_EQ(stages[8].forward_ns + stages[8].backward_ns + stages[8].weights + stages[8].kept, 0)
      << "the loss";
  EXPECT_THAT(divided.notes, testing::Contains(HasSubstr("the output layer is divided over 4 ranks")));
}

// The gradient of the input is half of the head's backward pass. It moves from T to S.
TEST(OutputSlices, WithOneBarrierComputeTheGradientOfTheInputInS) {
  const Experiment two = prepared_as(kUndivided, {schedule_named("1f1b-vocab-1")});
  const Experiment one = prepared_as(kUndivided, {schedule_named("1f1b-vocab-2")});
  const StageCost& late = two.costs.stages[4];
  const StageCost& early = one.costs.stages[4];
  EXPECT_NEAR(static_cast<double>(early.forward_ns + early.backward_ns),
              static_cast<double>(late.forward_ns + late.backward_ns), 1)
      << "each pass is rounded by itself";
  EXPECT_EQ(early.backward_ns - kBesideKernels, late.backward_weight_ns - kBesideKernels);
  // Maxima and sums have 8 bytes a token, and the input has 2 x 8192 bytes, on 8 devices.
  const Bytes input = 2 * 8192 * 8192 / 8;
  const Bytes statistics = 8 * 8192;
  const auto edge = [](const Experiment& experiment, std::int32_t from, std::int32_t to) {
    return experiment.costs.edges[EdgeNumbers(experiment.program).of({.from = from, .to = to})];
  };
  EXPECT_EQ(edge(two, 3, 4), (EdgeCost{.activation = input, .gradient = input}));
  EXPECT_EQ(edge(two, 4, 8), (EdgeCost{.activation = statistics, .gradient = statistics}));
  EXPECT_EQ(edge(one, 3, 4), (EdgeCost{.activation = input, .gradient = 0}));
  EXPECT_EQ(edge(one, 4, 8), (EdgeCost{.activation = input + statistics, .gradient = statistics}));
}

TEST(OutputSlices, LeaveLayersThatDifferByAtMostOne) {
  const Experiment divided = prepared_as(kUndivided, {schedule_named("1f1b-vocab-2"),
                                                      {.key = "model.layers", .value = "6"},
                                                      {.key = "schedule.layer_split", .value = "balanced"}});
  const std::vector<StageCost>& stages = divided.costs.stages;
  EXPECT_EQ(stages[0].forward_ns, stages[1].forward_ns);
  EXPECT_EQ(stages[2].forward_ns, stages[3].forward_ns);
  EXPECT_EQ(stages[2].forward_ns - kBesideKernels, 2 * (stages[0].forward_ns - kBesideKernels));
}

// The output layer is the fifth of five equal parts of the work, and each rank computes for 1 + 2 ms.
TEST(OutputSlices, WithoutAModelAreTheLastOfEqualParts) {
  const std::vector<StageCost> stages =
      prepared_as("schedule: {name: 1f1b-vocab-1, stages: 4, microbatches: 8}", {}).costs.stages;
  ASSERT_EQ(stages.size(), 9);
  EXPECT_EQ(stages[0].forward_ns, 800'000);
  EXPECT_EQ(stages[4].forward_ns, 200'000);
  EXPECT_EQ(stages[4].backward_ns, 400'000);
  EXPECT_EQ(stages[8].forward_ns, 0);
  EXPECT_EQ(stages[0].kept + stages[4].kept, kActivationParts);
}

// K follows from the length of the lists.
TEST(OutputSlices, TakeTheStatedTimes) {
  const Experiment experiment = prepared_as(R"(
model: {stages: {forward: [8 ms, 8 ms, 2 ms, 2 ms, 0 ms], backward: [16 ms, 16 ms, 3 ms, 3 ms, 0 ms]}}
schedule: {name: 1f1b-vocab-2, microbatches: 4}
)",
                                            {});
  EXPECT_EQ(experiment.program.rank_count(), 2);
  EXPECT_EQ(experiment.costs.stages[3].forward_ns, 2'000'000);
  EXPECT_EQ(experiment.costs.stages[4].backward_ns, 0);
}

TEST(OutputSlices, NeedAModelThatSaysWhatTheOutputLayerIs) {
  constexpr std::string_view kTwoLayers = R"(
model:
  layers:
    - {name: a, forward: 1 ms, backward: 2 ms}
    - {name: b, forward: 1 ms, backward: 2 ms}
schedule: {name: 1f1b-vocab-1, stages: 2, microbatches: 4}
partition: balanced
)";
  EXPECT_EQ(
      output_fault(kTwoLayers, {}),
      "a.yaml: schedule: 1f1b-vocab-1 divides the output layer over the ranks, and layers do not say which "
      "part that is; take a transformer on a device, or model.stages with 5 entries (stages of layers, "
      "slices, the loss)");
  EXPECT_THAT(output_fault("model: {stages: {forward: [1 ms, 1 ms], backward: 2 ms}}\n"
                           "schedule: {name: 1f1b-vocab-1, stages: 2, microbatches: 4}",
                           {}),
              HasSubstr("expected one value or a list of 5"));
  EXPECT_THAT(
      output_fault(kUndivided, {schedule_named("1f1b-vocab-1"), {.key = "model.multi_token", .value = "1"}}),
      HasSubstr("model.multi_token: the schedule divides one output layer over the ranks"));
}

TEST(EncoderStages, TakeTheFirstOfTheStatedTimes) {
  const Experiment experiment = prepared_as(R"(
model: {stages: {forward: [1 ms, 8 ms, 8 ms], backward: [2 ms, 16 ms, 16 ms], weights: [2 MB, 1 MB, 1 MB]}}
schedule: {name: 1f1b-encoder-bubbles, microbatches: 4}
)",
                                            {});
  EXPECT_EQ(experiment.program.rank_count(), 2);
  EXPECT_EQ(experiment.program.placement.stages[0].ranks, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(experiment.costs.stages[0].forward_ns, 1'000'000);
  EXPECT_EQ(experiment.costs.stages[0].weights, 2'000'000);
  EXPECT_EQ(experiment.costs.stages[2].backward_ns, 16'000'000);
}

TEST(EncoderStages, NeedAModelWithAnEncoder) {
  EXPECT_THAT(output_fault(kUndivided, {schedule_named("1f1b-encoder-first")}),
              HasSubstr("schedule: 1f1b-encoder-first runs an encoder, and the model has none; take "
                        "model.stages with 5 entries (the encoder, stages of layers), or model.layers"));
}

}  // namespace
}  // namespace penstock
