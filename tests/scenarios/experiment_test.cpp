// Tests the preparation of a scenario, up to the lowered program with its costs: sums, scaling, lists, edges,
// clusters.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/prepare/priced_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/scenarios/read_scenario.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

StageCost first_stage(const std::string& figures, const std::vector<Override>& overrides = {}) {
  const std::string text =
      "model: {stages: {" + figures + "}}\nschedule: {name: gpipe, stages: 1, microbatches: 2}\n";
  return prepared(text, overrides).costs.stages.front();
}

TEST(StageCosts, BackwardAloneIsSplitInHalves) {
  const StageCost cost = first_stage("forward: 1 ms, backward: 5 ns");
  EXPECT_EQ(cost.backward_ns, 5);
  EXPECT_EQ(cost.backward_input_ns + cost.backward_weight_ns, 5);
  EXPECT_EQ(cost.backward_input_ns, 2);
}

TEST(StageCosts, BackwardIsTheSumOfItsHalves) {
  EXPECT_EQ(first_stage("forward: 1 ms, backward_input: 3 ns, backward_weight: 4 ns").backward_ns, 7);
  EXPECT_EQ(first_stage("forward: 1 ms, backward: 7 ns, backward_weight: 4 ns").backward_input_ns, 3);
  EXPECT_EQ(first_stage("forward: 1 ms, backward: 7 ns, backward_input: 4 ns").backward_weight_ns, 3);
  EXPECT_EQ(
      first_stage("forward: 1 ms, backward: 7 ns, backward_input: 4 ns, backward_weight: 3 ns").backward_ns,
      7);
}

TEST(StageCosts, RecomputeIsTheForwardAgain) {
  EXPECT_EQ(first_stage("forward: 3 ms, backward: 1 ms").recompute_ns, 3'000'000);
  EXPECT_EQ(first_stage("forward: 3 ms, backward: 1 ms, recompute: 2 ms").recompute_ns, 2'000'000);
}

TEST(StageCosts, GradientsAreAsLargeAsWeightsAndStateFollowsTheOptimizer) {
  const auto state = [](const std::string& optimizer) {
    return first_stage("forward: 1 ms, backward: 1 ms, weights: 8 B", {{"training.optimizer", optimizer}});
  };
  EXPECT_EQ(state("sgd").gradients, 8);
  EXPECT_EQ(state("sgd").optimizer_state, 0);
  EXPECT_EQ(state("momentum").optimizer_state, 8);
  EXPECT_EQ(state("rmsprop").optimizer_state, 8);
  EXPECT_EQ(state("adam").optimizer_state, 16);
  const StageCost given =
      first_stage("forward: 1 ms, backward: 1 ms, weights: 8 B, gradients: 4 B, optimizer_state: 24 B",
                  {{"training.optimizer", "adam"}});
  EXPECT_EQ(given.gradients, 4);
  EXPECT_EQ(given.optimizer_state, 24);
}

constexpr const char* kScaled = R"(
model:
  stages: {forward: 1 ms, backward: 3 ms, backward_input: 1 ms, recompute: 2 ms, overlapped_pair: 2.5 ms, step: 5 ms,
           overhead: 20 us, activation: 16 B, gradient: 24 B, kept: 40 B, released_by_input: 8 B, input: 4 B,
           weights: 100 B, transient: 12 B, recomputed: 6 B, recomputed_at_once: 10 B}
schedule: {name: gpipe, stages: 2, microbatches: 8}
training: {micro_batch_size: 4}
)";

TEST(Scaling, OverheadIsAddedOnceAndDoesNotScale) {
  const StageCost own = prepared(kScaled).costs.stages[0];
  EXPECT_EQ(own.forward_ns, 1'020'000);
  EXPECT_EQ(own.backward_ns, 3'020'000);
  EXPECT_EQ(own.backward_input_ns, 1'020'000);
  EXPECT_EQ(own.backward_weight_ns, 2'020'000);
  EXPECT_EQ(own.recompute_ns, 2'020'000);
  EXPECT_EQ(own.overlapped_pair_ns, 2'540'000) << "two actions, each with its overhead";
  EXPECT_EQ(own.step_ns, 5'000'000);
  const StageCost half = prepared(kScaled, {{"training.micro_batch_size", "2"}}).costs.stages[0];
  EXPECT_EQ(half.forward_ns, 520'000);
  EXPECT_EQ(half.backward_ns, 1'520'000);
  EXPECT_EQ(half.backward_input_ns, 520'000);
  EXPECT_EQ(half.backward_weight_ns, 1'020'000);
  EXPECT_EQ(half.recompute_ns, 1'020'000);
  EXPECT_EQ(half.overlapped_pair_ns, 1'290'000);
  EXPECT_EQ(half.step_ns, 5'000'000);
}

TEST(Scaling, BytesOfAMicrobatchScaleAndWeightsDoNot) {
  const CostTable costs = prepared(kScaled, {{"training.micro_batch_size", "2"}}).costs;
  EXPECT_EQ(costs.edges.front().activation, 8);
  EXPECT_EQ(costs.edges.front().gradient, 12);
  EXPECT_EQ(costs.stages[0].kept, 20);
  EXPECT_EQ(costs.stages[0].released_by_input, 4);
  EXPECT_EQ(costs.stages[0].input, 2);
  EXPECT_EQ(costs.stages[0].transient, 6);
  EXPECT_EQ(costs.stages[0].recomputed, 3);
  EXPECT_EQ(costs.stages[0].recomputed_at_once, 5);
  EXPECT_EQ(costs.stages[0].weights, 100);
}

TEST(Scaling, FollowsTheNumberOfMicrobatchesOfAGlobalBatch) {
  const std::string text =
      "model: {stages: {forward: 48 ms, backward: 0 ms, overhead: 1 ms}}\n"
      "schedule: {name: gpipe, stages: 1, microbatches: 1}\ntraining: {global_batch_size: 48}";
  for (const std::int64_t microbatches : {1, 2, 12, 48}) {
    const Experiment experiment = prepared(text, {{"schedule.microbatches", std::to_string(microbatches)}});
    EXPECT_EQ(experiment.costs.stages[0].forward_ns, 48'000'000 / microbatches + 1'000'000);
    EXPECT_EQ(experiment.samples_per_microbatch, 48.0 / static_cast<double>(microbatches));
  }
}

TEST(Scaling, RoundsToTheNearestAndKeepsBackwardTheSumOfItsHalves) {
  const std::string text =
      "model: {stages: {forward: 5 ns, backward: 5 ns, backward_input: 1 ns}}\n"
      "schedule: {name: gpipe, stages: 1, microbatches: 1}\ntraining: {micro_batch_size: 3}";
  for (int micro = 1; micro <= 12; ++micro) {
    const StageCost cost =
        prepared(text, {{"training.micro_batch_size", std::to_string(micro)}}).costs.stages[0];
    EXPECT_EQ(cost.forward_ns, (5 * micro + 1) / 3);
    EXPECT_EQ(cost.backward_ns, cost.backward_input_ns + cost.backward_weight_ns);
  }
}

TEST(Scaling, IsNotedWhereItHappens) {
  EXPECT_TRUE(prepared(kScaled).notes.empty());
  EXPECT_EQ(prepared(kScaled, {{"training.micro_batch_size", "2"}}).notes,
            std::vector<std::string>{
                "the model's times and bytes hold for 4 samples a microbatch and are scaled linearly to the "
                "microbatch's size, overhead apart"});
  EXPECT_EQ(prepared(kScaled, {{"training.micro_batch_size", "2"}, {"model.stages.overhead", "0"}}).notes,
            std::vector<std::string>{
                "the model's times and bytes hold for 4 samples a microbatch and are scaled linearly to the "
                "microbatch's size, with overhead 0"});
}

TEST(Scaling, BeyondSixtyFourBitsIsAnError) {
  const Scenario scenario = read_scenario(
      "model: {stages: {forward: 2000000 h, backward: 1 ms}}\n"
      "schedule: {name: gpipe, stages: 1, microbatches: 1}",
      {{"training.micro_batch_size", "1000000"}});
  EXPECT_EQ(prepare(scenario).error().message,
            "s.yaml: the model's figures for 1 samples become more than 2^63 when scaled to 1000000");
}

TEST(Scaling, UnitCostsAreThoseOfOneSample) {
  for (const std::int64_t samples : {1, 24}) {
    const Experiment experiment = prepared("schedule: {name: gpipe, stages: 2, microbatches: 2}",
                                           {{"training.micro_batch_size", std::to_string(samples)}});
    const StageCost& cost = experiment.costs.stages[1];
    EXPECT_EQ(cost.forward_ns, samples * 1'000'000);
    EXPECT_EQ(cost.backward_ns, samples * 2'000'000);
    EXPECT_EQ(cost.kept, samples * kActivationParts);
    EXPECT_EQ(experiment.notes.size(), samples == 1 ? 0U : 1U);
  }
}

TEST(Scaling, LeavesUnitCostsOfTheFilesOwnMicrobatchAlone) {
  const Experiment experiment =
      prepared("schedule: {name: gpipe, stages: 2, microbatches: 2}\ntraining: {micro_batch_size: 7}");
  CostTable expected = unit_costs(experiment.program);
  for (StageCost& stage : expected.stages) stage.kept = kActivationParts;
  EXPECT_EQ(experiment.costs, expected);
}

constexpr const char* kLayers = R"(
model:
  batch: 2
  layers:
    - {name: a, forward: 1 us, backward: 2 us, output: 10 B, weights: 100 B}
    - {name: b, forward: 3 us, backward: 4 us, output: 20 B, weights: 200 B}
    - {name: c, forward: 5 us, backward: 6 us, output: 40 B, weights: 400 B, inputs: [a, b]}
schedule: {name: gpipe, stages: 2, microbatches: 4}
partition: [2]
training: {micro_batch_size: 2, optimizer: adam}
)";

TEST(LayerCosts, AreSumsOverTheStagesLayers) {
  const CostTable costs = prepared(kLayers).costs;
  StageCost first;
  first.forward_ns = first.recompute_ns = 4'000;
  first.backward_ns = 6'000;
  first.backward_input_ns = first.backward_weight_ns = 3'000;
  first.kept = 30;
  first.weights = first.gradients = 300;
  first.optimizer_state = 600;
  EXPECT_EQ(costs.stages[0], first);
  EXPECT_EQ(costs.stages[1].kept, 40);
  EXPECT_EQ(costs.edges, (std::vector<EdgeCost>{{.activation = 30, .gradient = 30}}));
}

TEST(LayerCosts, ScaleFromTheProfilesBatchAndSaySo) {
  const Experiment experiment = prepared(kLayers, {{"training.micro_batch_size", "4"}});
  EXPECT_EQ(experiment.costs.stages[0].forward_ns, 8'000);
  EXPECT_EQ(experiment.costs.stages[0].kept, 60);
  EXPECT_EQ(experiment.costs.stages[0].weights, 300);
  EXPECT_EQ(
      experiment.notes,
      std::vector<std::string>{"the model's times and bytes hold for 2 samples a microbatch and are scaled "
                               "linearly to the microbatch's size, with overhead 0"});
}

TEST(LayerCosts, OverheadIsPerStageAction) {
  const CostTable costs = prepared(kLayers, {{"model.overhead", "7 ns"}}).costs;
  EXPECT_EQ(costs.stages[0].forward_ns, 4'007);
  EXPECT_EQ(costs.stages[1].backward_ns, 6'007);
}

//        left
//   in <      > out        a branching model, whose layers have an order only because they are listed in one
//        right
const std::string kBranches =
    "model: {layers: [{name: in, forward: 1 us, backward: 1 us}, {name: left, forward: 2 us, backward: 2 "
    "us}, "
    "{name: right, forward: 4 us, backward: 4 us, inputs: [in]}, "
    "{name: out, forward: 8 us, backward: 8 us, inputs: [left, right]}]}\n"
    "schedule: {name: 1f1b, microbatches: 3}\n";

TEST(LayerCosts, OfNamedCutsBeginTheirStagesWithTheNamedLayers) {
  const Experiment named = prepared(kBranches + "partition: [right, out]");
  ASSERT_EQ(named.program.stage_count(), 3) << "one more than cuts";
  EXPECT_EQ(named.costs.stages[0].forward_ns, 3'000);
  EXPECT_EQ(named.costs.stages[1].forward_ns, 4'000);
  EXPECT_EQ(named.costs.stages[2].forward_ns, 8'000);
  EXPECT_EQ(named.costs, prepared(kBranches + "partition: [2, out]").costs) << "beside numbers, too";
}

// Two layers have the names 4 and 2, in this order. The cut 1 is the number of layers before the cut. The cut
// "2" is the name of the second layer.
TEST(LayerCosts, OfCutsAtLayersThatAreCalledByFigures) {
  const std::string layers =
      "model: {layers: [{name: \"4\", forward: 1 us, backward: 1 us}, {name: \"2\", forward: 2 us, backward: "
      "1 "
      "us}, {name: \"3\", forward: 4 us, backward: 1 us}]}\n"
      "schedule: {name: 1f1b, microbatches: 1}\n";
  EXPECT_EQ(prepared(layers + "partition: [\"2\"]").costs, prepared(layers + "partition: [1]").costs);
  EXPECT_EQ(prepared(layers + "partition: [2]").costs.stages[0].forward_ns, 3'000);
  EXPECT_EQ(prepared(layers + "partition: [\"1\"]").costs, prepared(layers + "partition: [1]").costs)
      << "no layer is called 1";
}

TEST(LayerCosts, OfOneStageNeedNoPartition) {
  const Experiment experiment = prepared(
      "model: {layers: [{forward: 1 us, backward: 2 us}]}\n"
      "schedule: {name: 1f1b, stages: 1, microbatches: 3}");
  EXPECT_EQ(experiment.program.stage_count(), 1);
  EXPECT_EQ(experiment.costs.stages[0].forward_ns, 1'000);
  EXPECT_TRUE(experiment.costs.edges.empty());
}

TEST(Prepare, GivesOneCostForEachOfKTimesVStages) {
  const Experiment experiment = prepared(R"(
model: {stages: {forward: [1 ms, 2 ms, 3 ms, 4 ms], backward: 1 ms}}
schedule: {name: interleaved, virtual_stages: 2, microbatches: 4}
)");
  EXPECT_EQ(experiment.program.rank_count(), 2);
  ASSERT_EQ(experiment.costs.stages.size(), 4U);
  EXPECT_EQ(experiment.costs.stages[3].forward_ns, 4'000'000);
}

TEST(Prepare, LowersTheProgram) {
  const Experiment experiment = prepared("schedule: {name: 1f1b, stages: 3, microbatches: 4}");
  EXPECT_TRUE(is_lowered(experiment.program));
  EXPECT_EQ(lower(experiment.program), experiment.program);
  EXPECT_EQ(experiment.name, "s.yaml");
  EXPECT_EQ(experiment.cluster.device_count(), 3);
}

TEST(Prepare, PutsTheModelsEdgesIntoTheProgram) {
  const Experiment experiment = prepared(R"(
model: {stages: {forward: 1 ms, backward: 2 ms, activation: [1 B, 2 B, 3 B], edges: [[1, 2], [0, 2], [0, 1]]}}
schedule: {name: gpipe, microbatches: 2}
)");
  EXPECT_EQ(experiment.program.edges, (std::vector<StageEdge>{{0, 1}, {0, 2}, {1, 2}}));
  EXPECT_EQ(experiment.costs.edges[1], (EdgeCost{.activation = 1, .gradient = 1}));
}

TEST(Prepare, AnEdgeMayCarryOneFlow) {
  const Experiment experiment = prepared(R"(
model: {stages: {forward: 1 ms, backward: 2 ms, activation: 4 B, edges: [[0, 1], "0>2!", "1<2!"]}}
schedule: {name: gpipe, stages: 3, microbatches: 1}
)");
  EXPECT_EQ(experiment.program.edges,
            (std::vector<StageEdge>{{.from = 0, .to = 1},
                                    {.from = 0, .to = 2, .flows = EdgeFlows::activation},
                                    {.from = 1, .to = 2, .flows = EdgeFlows::gradient}}));
  EXPECT_EQ(experiment.costs.edges, (std::vector<EdgeCost>{{.activation = 4, .gradient = 4},
                                                           {.activation = 4, .gradient = 0},
                                                           {.activation = 0, .gradient = 4}}));
}

TEST(Prepare, ReplicasNeedOneDeviceEach) {
  const std::string text =
      "cluster: {devices: 2}\nschedule: {name: 1f1b-rr, replicas: [2, 1], microbatches: 4}";
  const auto refused = prepare(read_scenario(text));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(refused.error().message,
            "s.yaml: cluster: the program has 3 ranks, the cluster (uniform) only 2 devices; one rank needs "
            "one device, so add devices or take fewer ranks");
  EXPECT_EQ(prepared(text, {{"cluster.devices", "4"}}).cluster.device_count(), 4);
}

TEST(Prepare, RunsAProgramFileWithItsOwnMicrobatches) {
  const Experiment experiment = prepared("schedule: parts/two_ranks.csv\ntraining: {global_batch_size: 6}");
  EXPECT_EQ(experiment.program.microbatches, 1);
  EXPECT_EQ(experiment.samples_per_microbatch, 6);
}

TEST(Prepare, TellsAnInvalidProgramFromBadInput) {
  const auto invalid = prepare(read_scenario("schedule: parts/backward_first.csv"));
  ASSERT_FALSE(invalid);
  EXPECT_EQ(invalid.error().kind, ErrorKind::check_failed);
  const auto impossible = prepare(read_scenario("schedule: {name: gpipe, stages: 2}"));
  ASSERT_FALSE(impossible);
  EXPECT_EQ(impossible.error().kind, ErrorKind::bad_input);
}

TEST(Prepare, TakesScenariosThatFlagsMade) {
  Scenario scenario;
  scenario.schedule = "1f1b";
  scenario.shape.stages = 8;
  scenario.batch.microbatches = 32;
  const Experiment experiment = prepared(scenario);
  EXPECT_EQ(experiment.name, "1f1b");
  EXPECT_EQ(experiment.program.microbatches, 32);
  EXPECT_EQ(experiment.samples_per_microbatch, 1);
  scenario.schedule = "1f2b";
  EXPECT_FALSE(prepare(scenario));
}

TEST(Prepare, GivesCostsToTheSchedulesThatWeighThem) {
  const std::string text = R"(
model: {stages: {forward: 1 ms, backward_input: 1 ms, backward_weight: 1 ms, kept: 4 B, activation: 8 B}}
cluster: {bandwidth: 1 GB/s}
schedule: {name: zb-1p, stages: 3, microbatches: 6}
)";
  const Program balanced = prepared(text).program;
  EXPECT_EQ(prepared(text).program, balanced);
  EXPECT_NE(prepared(text, {{"model.stages.forward", "[1 ms, 3 ms, 1 ms]"}}).program, balanced);
  EXPECT_NE(prepared(text, {{"cluster.latency", "2 ms"}}).program, balanced);
  EXPECT_NE(prepared(text, {{"schedule.memory_limit", "4 B"}}).program, balanced);
  EXPECT_FALSE(prepare(read_scenario(text, {{"schedule.memory_limit", "3 B"}})))
      << "not even one microbatch fits";
}

TEST(Prepare, GivesEachSliceItsShareOfTheMicrobatch) {
  const Experiment experiment = prepared(
      "model: {stages: {forward: 6 ms, backward: 4 ms, kept: 8 B, overhead: 1 us}}\n"
      "schedule: {name: seq-1f1b, stages: 2, microbatches: 2, slices: 2}\ntraining: {micro_batch_size: 3}");
  EXPECT_EQ(experiment.program.slices, 2);
  EXPECT_EQ(experiment.costs.stages[0].forward_ns, 3'001'000);
  EXPECT_EQ(experiment.costs.stages[0].kept, 4);
  EXPECT_TRUE(experiment.notes.empty());
}

TEST(Prepare, GivesEachStageTheLayersOfItsNetwork) {
  const std::string layers =
      "layers: [{name: a, forward: 1 ms, backward: 1 ms}, {name: b, forward: 1 ms, backward: 1 ms}, "
      "{name: c, forward: 1 ms, backward: 1 ms}]";
  const auto of_layers = prepared("model: {network: {mlp: {layers: 3}}, " + layers +
                                  "}\nschedule: {name: gpipe, stages: 2, microbatches: 2}\npartition: [1]\n"
                                  "training: {micro_batch_size: 4, optimizer: adam}\n")
                             .network;
  ASSERT_TRUE(of_layers);
  EXPECT_EQ(of_layers->layers, (std::vector<std::vector<std::string>>{{"a"}, {"b", "c"}}));
  EXPECT_EQ(of_layers->optimizer, Optimizer::adam);
  const auto alone =
      prepared("model: {network: mlp}\nschedule: {name: gpipe, stages: 2, microbatches: 2}\n").network;
  ASSERT_TRUE(alone);
  EXPECT_TRUE(alone->layers.empty());
}

TEST(Prepare, IsPure) {
  const Scenario scenario = read_scenario(kLayers);
  const Experiment first = prepared(scenario);
  const Experiment second = prepared(scenario);
  EXPECT_EQ(first.program, second.program);
  EXPECT_EQ(first.costs, second.costs);
}

TEST(Prepare, TakesAnExampleWithEveryPart) {
  const Experiment experiment = prepared(R"(
model:
  stages:
    forward: [1 ms, 1 ms, 2 ms, 1 ms]
    backward: 2 ms
    overlapped_pair: 2.5 ms
    overhead: 20 us
    activation: 16 MiB
    kept: 80 MiB
    weights: 500 MiB
cluster: {preset: uniform, devices: 4, bandwidth: 50 GiB/s, latency: 4 us, memory: 80 GiB}
schedule: {name: 1f1b, stages: 4, microbatches: 32, virtual_stages: 1}
partition: balanced
training: {micro_batch_size: 4, optimizer: sgd, iterations: 1}
)");
  EXPECT_EQ(experiment.costs.stages[2].forward_ns, 2'020'000);
  EXPECT_EQ(experiment.costs.edges[0].activation, 16LL << 20);
  EXPECT_EQ(experiment.samples_per_microbatch, 4);
}

// A file of costs may contain each of these sizes. A message of 2^77 bytes gets the largest number of 64
// bits.
TEST(FittedFigures, MessagesBeyond64BitsDoNotWrap) {
  FittedModel model;
  model.kind = {.hidden = 1 << 20, .sequence = 1 << 28, .micro_batch_size = 1 << 28};
  EXPECT_EQ(fitted_figures(model, {}).activation.of(0, 0), std::numeric_limits<Bytes>::max());
}

/// Returns the stages of a generated schedule without its order, found by generating that order.
tl::expected<Program, std::string> stages_of_whole_program(const StatedSchedule& schedule) {
  return placed_program(schedule).map([](Program program) {
    for (std::vector<Action>& list : program.ranks) list.clear();
    return program;
  });
}

TEST(PlacedStages, OfASearchedOrderAreThoseOfTheWholeProgram) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (!schedule.weighs_costs) continue;
    for (const std::int32_t stages : {1, 2, 3, 6}) {
      for (const std::int32_t microbatches : {1, 2, 7, 12}) {
        for (const std::int32_t copies : {1, 2}) {
          SCOPED_TRACE(testing::Message()
                       << schedule.name << " K " << stages << " M " << microbatches << " copies " << copies);
          const StatedSchedule stated{.name = std::string(schedule.name),
                                      .shape = {.stages = stages,
                                                .microbatches = microbatches,
                                                .iterations = 2,
                                                .data_parallel = copies},
                                      .weighs_costs = true};
          EXPECT_EQ(placed_stages(stated), stages_of_whole_program(stated));
          ++compared;
        }
      }
    }
  }
  EXPECT_EQ(compared, 7 * 4 * 4 * 2);
}

TEST(PlacedStages, AreRefusedAsTheWholeProgramIs) {
  const auto refusal = [](const Shape& shape) {
    const StatedSchedule stated{.name = "zb-v", .shape = shape, .weighs_costs = true};
    EXPECT_EQ(placed_stages(stated), stages_of_whole_program(stated));
    const auto placed = placed_stages(stated);
    return placed ? std::string() : placed.error();
  };
  EXPECT_THAT(refusal({.stages = 4, .microbatches = 3, .data_parallel = 2}), HasSubstr("microbatches"));
  EXPECT_THAT(refusal({.stages = 0, .microbatches = 3}), HasSubstr("stages"));
  EXPECT_THAT(refusal({.stages = 1024, .microbatches = 1'000'000}), HasSubstr("2^29"));
  EXPECT_THAT(refusal({.stages = 1'000'000, .microbatches = 1'000'000'000}), HasSubstr("2^40"));
  EXPECT_THAT(refusal({.stages = 4, .microbatches = 3, .barrier = true}), IsEmpty());
}

// Tests the search for the smallest shape of a schedule that hangs because its channels are full.

/// Returns interleaved 1F1B with channels that can store only one message that is not consumed yet.
Scenario tight_interleaving(std::int32_t stages, std::int32_t microbatches) {
  Scenario scenario;
  scenario.schedule = "interleaved";
  scenario.shape = {.stages = stages, .virtual_stages = 2};
  scenario.batch.microbatches = microbatches;
  scenario.channels = {.model = ChannelModel::rank, .capacity = 1};
  return scenario;
}

TEST(HangingShape, IsTheFirstThatHangs) {
  const Scenario whole = tight_interleaving(4, 8);
  auto experiment = prepare(whole);
  ASSERT_TRUE(experiment) << experiment.error().message;
  ASSERT_TRUE(find_hang(experiment->program, experiment->channels, experiment->costs));
  const auto [found, shape] = smallest_hanging_shape(whole, *experiment);
  EXPECT_TRUE(find_hang(found.program, found.channels, found.costs));
  EXPECT_EQ(found.program.microbatches, shape.microbatches);
  // No earlier shape hangs, in the order K, v, M.
  for (std::int32_t k = 1; k <= shape.stages; ++k) {
    for (std::int32_t v = 1; v <= 2; ++v) {
      for (std::int32_t m = 1; m <= 8; ++m) {
        if (k == shape.stages &&
            (v > shape.virtual_stages || (v == shape.virtual_stages && m >= shape.microbatches)))
          continue;
        Scenario smaller = tight_interleaving(k, m);
        smaller.shape.virtual_stages = v;
        const auto prepared = prepare(smaller);
        if (!prepared) continue;
        EXPECT_FALSE(find_hang(prepared->program, prepared->channels, prepared->costs))
            << "K=" << k << " v=" << v << " M=" << m;
      }
    }
  }
}

// The edges name stages 0 to 7, so shapes with K v < 8 cannot be prepared, and only M can become smaller.
TEST(HangingShape, PassesOverShapesThatDoNotFitTheModel) {
  Scenario scenario = tight_interleaving(4, 8);
  StageFigures figures;
  figures.forward.values = {1000};
  figures.backward.values = {1000};
  for (std::int32_t stage = 0; stage < 7; ++stage) figures.edges.push_back({.from = stage, .to = stage + 1});
  scenario.model = figures;
  auto experiment = prepare(scenario);
  ASSERT_TRUE(experiment) << experiment.error().message;
  const auto [found, shape] = smallest_hanging_shape(scenario, *experiment);
  EXPECT_EQ(found.program.stage_count(), 8) << "the model's edges name eight";
  EXPECT_LT(shape.microbatches, 8);
}

}  // namespace
}  // namespace penstock
