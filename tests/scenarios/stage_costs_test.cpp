// Tests unit costs, which stages have if there is no model. Also tests the default number of chunks, and the
// costs of a stage's buckets.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/cut.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "sim/memory/memory.hpp"
#include "tests/scenarios/read_scenario.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Scenario unit_scenario(const std::string& schedule) {
  const auto scenario = parse_scenario("schedule: {" + schedule + "}\n", "it.yaml", ".");
  EXPECT_TRUE(scenario) << scenario.error();
  return *scenario;
}

Experiment experiment_from(const Scenario& scenario) {
  auto experiment = prepare(scenario);
  EXPECT_TRUE(experiment) << experiment.error().message;
  return *std::move(experiment);
}

Ns forward_ns(const std::string& schedule) {
  const Experiment experiment = experiment_from(unit_scenario(schedule));
  const std::vector<StageCost>& stages = experiment.costs.stages;
  EXPECT_TRUE(std::ranges::all_of(stages, [&](const StageCost& stage) { return stage == stages.front(); }));
  return stages.front().forward_ns;
}

TEST(UnitCosts, ARanksShareOfTheModelTakesOneMillisecond) {
  constexpr Ns kShare = 1'000'000;
  EXPECT_EQ(forward_ns("name: 1f1b, stages: 4, microbatches: 8"), kShare);
  EXPECT_EQ(forward_ns("name: interleaved, stages: 4, virtual_stages: 2, microbatches: 8"), kShare / 2);
  EXPECT_EQ(forward_ns("name: looped-bfs, stages: 4, virtual_stages: 4, microbatches: 8"), kShare / 4);
  EXPECT_EQ(forward_ns("name: hanayo, stages: 4, virtual_stages: 4, microbatches: 8"), kShare / 4);
  for (const char* on_a_v : {"zb-v", "v-half", "v-min", "1f1b-v", "zbv-zero-bubble", "dualpipe-v"}) {
    EXPECT_EQ(forward_ns(std::string("stages: 4, microbatches: 8, name: ") + on_a_v), kShare / 2) << on_a_v;
  }
}

// A rank has two stages, one of each of two copies of the model. A microbatch passes through one of them.
TEST(UnitCosts, BothDirectionsHaveWholeShares) {
  for (const char* both_ways : {"dualpipe", "chimera", "gems"}) {
    EXPECT_EQ(forward_ns(std::string("stages: 4, microbatches: 8, name: ") + both_ways), 1'000'000)
        << both_ways;
  }
}

TEST(UnitCosts, CopiesDoNotMakeAShareSmaller) {
  EXPECT_EQ(forward_ns("name: data-parallel, stages: 4, microbatches: 8"), 1'000'000);
  EXPECT_EQ(forward_ns("name: 1f1b-rr, stages: 2, replicas: [2, 1], microbatches: 8"), 1'000'000);
  EXPECT_EQ(forward_ns("name: interleaved, stages: 2, virtual_stages: 2, microbatches: 8, data_parallel: 2"),
            500'000);
}

TEST(UnitCosts, AThirdIsRoundedAlikeForEveryKind) {
  const Experiment experiment = experiment_from(
      unit_scenario("name: interleaved-zero-bubble, stages: 2, virtual_stages: 3, microbatches: 2"));
  const StageCost& stage = experiment.costs.stages.front();
  EXPECT_EQ(stage.forward_ns, 333'333);
  EXPECT_EQ(stage.backward_input_ns, 333'333);
  EXPECT_EQ(stage.backward_weight_ns, 333'333);
  EXPECT_EQ(stage.backward_ns, 666'666);
  EXPECT_EQ(3 * stage.kept, kActivationParts);
}

TEST(UnitCosts, OfAStageAreTheSameForEveryChunk) {
  Scenario scenario = unit_scenario("name: interleaved, stages: 4, virtual_stages: 2, microbatches: 8");
  scenario.model = UnitCosts{.unit = CostUnit::stage};
  const StageCost stage = experiment_from(scenario).costs.stages.front();
  EXPECT_EQ(stage.forward_ns, 1'000'000);
  EXPECT_EQ(stage.kept, kActivationParts);
}

TEST(UnitCosts, OfAProgramFromAFileAreThoseOfTheScheduleThatItHolds) {
  for (const char* name : {"1f1b", "zb-v", "interleaved", "chimera", "dualpipe", "data-parallel"}) {
    Scenario scenario = unit_scenario(std::string("stages: 4, microbatches: 8, name: ") + name);
    const Experiment named = experiment_from(scenario);
    scenario.program = named.program;
    EXPECT_EQ(experiment_from(scenario).costs, named.costs) << name;
  }
}

TEST(UnitCosts, AMemoryLimitCountsWholeActivations) {
  const auto peak_of = [](const std::string& limit) {
    const Experiment experiment = experiment_from(unit_scenario(
        "name: synthesized, stages: 4, virtual_stages: 2, microbatches: 8, memory_limit: " + limit));
    std::int64_t held = 0;
    std::int64_t peak = 0;
    for (const Action& action : experiment.program.ranks.front()) {
      const Bytes kept = experiment.costs.stages.front().kept;
      if (action.kind == ActionKind::forward) held += kept;
      peak = std::max(peak, held);
      if (action.kind == ActionKind::backward_weight) held -= kept;
    }
    return peak;
  };
  EXPECT_LE(peak_of("2 B"), 2 * kActivationParts);
  EXPECT_GT(peak_of("2 B"), kActivationParts);
}

TEST(UnitCosts, ADeviceWithoutAModelHoldsWholeActivations) {
  const auto scenario = parse_scenario(
      "schedule: {name: 1f1b, stages: 2, microbatches: 4}\ncluster: {preset: uniform, memory: 3 B}\n",
      "it.yaml", ".");
  ASSERT_TRUE(scenario) << scenario.error();
  RankMemory memory;
  set_device(memory, experiment_from(*scenario), 1);
  EXPECT_EQ(memory.capacity, 3 * kActivationParts);
}

TEST(DefaultChunks, OfSchedulesThatInterleaveAreTwoAndAreSaid) {
  for (const std::string name :
       {"interleaved", "Interleaved1F1B", "looped-bfs", "interleaved-zero-bubble", "hanayo"}) {
    const Experiment experiment = experiment_from(unit_scenario("stages: 4, microbatches: 8, name: " + name));
    EXPECT_EQ(experiment.program.stage_count(), 8) << name;
    ASSERT_EQ(experiment.notes.size(), 1U) << name;
    EXPECT_THAT(experiment.notes[0], testing::StartsWith("v is not given: "));
    EXPECT_THAT(experiment.notes[0], testing::HasSubstr(" takes 2 chunks a rank"));
  }
  EXPECT_THAT(experiment_from(unit_scenario("stages: 4, microbatches: 8, name: 1f1b")).notes, IsEmpty());
}

TEST(DefaultChunks, OneThatIsAskedForIsNoInterleaving) {
  const Experiment one =
      experiment_from(unit_scenario("name: interleaved, stages: 4, virtual_stages: 1, microbatches: 8"));
  EXPECT_EQ(one.program.stage_count(), 4);
  EXPECT_THAT(one.notes,
              ElementsAre("v is 1: interleaved does not interleave anything and takes 1F1B's time in "
                          "more memory"));
  EXPECT_THAT(
      experiment_from(unit_scenario("name: interleaved, stages: 4, virtual_stages: 2, microbatches: 8"))
          .notes,
      IsEmpty());
}

TEST(DefaultChunks, GiveWayToListsOfTheModelsStages) {
  const auto scenario = parse_scenario(
      "schedule: {name: interleaved, stages: 2, microbatches: 4}\n"
      "model: {stages: {forward: [1 ms, 2 ms], backward: 2 ms}}\n",
      "it.yaml", ".");
  ASSERT_TRUE(scenario) << scenario.error();
  EXPECT_EQ(experiment_from(*scenario).program.stage_count(), 2);
}

// Tests `schedule.buckets`: the costs of a stage's buckets, and how layers are divided among them.

using testing::HasSubstr;

// Four layers in two stages, the first with two replicas in rr():
//
//   layers    a b c | d      F  4 1 1 | 2 ms
//   buckets   a | b c | d    what [2, 1] makes of them
const std::string kFourStages =
    "model: {overhead: 1 us, layers: [{name: a, forward: 4 ms, backward: 8 ms, weights: 40 B, output: 1 B}, "
    "{name: b, "
    "forward: 1 ms, backward: 2 ms, weights: 10 B, output: 2 B}, {name: c, forward: 1 ms, backward: 2 ms, "
    "weights: 20 "
    "B, output: 3 B}, {name: d, forward: 2 ms, backward: 4 ms, weights: 30 B, output: 4 B}]}\npartition: "
    "[3]\n";

std::string rr(const std::string& keys) {
  return "schedule: {name: 1f1b-rr, stages: 2, replicas: [2, 1], microbatches: 4, " + keys + "}\n";
}

TEST(StageBuckets, HaveTheLayersOfTheirStageAsEvenInTimeAsTheyCome) {
  const Experiment experiment = prepared(kFourStages + rr("buckets: [2, 1]"));
  ASSERT_EQ(experiment.costs.stages.size(), 3);
  EXPECT_EQ(experiment.costs.stages[0].weights, 40);
  EXPECT_EQ(experiment.costs.stages[1].weights, 30);
  EXPECT_EQ(experiment.costs.stages[2].weights, 30);
  EXPECT_EQ(experiment.program.placement.stages[1].ranks, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(experiment.program.placement.stages[2].ranks, (std::vector<std::int32_t>{2}));
}

TEST(StageBuckets, HaveTheOverheadOfTheirStageOnce) {
  const Experiment experiment = prepared(kFourStages + rr("buckets: [2, 1]"));
  EXPECT_EQ(experiment.costs.stages[0].forward_ns, 4'001'000);
  EXPECT_EQ(experiment.costs.stages[1].forward_ns, 2'000'000);
  EXPECT_EQ(experiment.costs.stages[2].forward_ns, 2'001'000);
}

TEST(StageBuckets, AreNoMoreThanLayersWhereOneNumberIsGiven) {
  const Scenario scenario = read_scenario(kFourStages + rr("buckets: 8"));
  const auto whole = cut_model(scenario.model, scenario.partition, 2, {});
  ASSERT_TRUE(whole) << whole.error();
  EXPECT_EQ(whole->ends, (std::vector<std::int32_t>{3, 4}));
  const auto cut = cut_into_buckets(scenario.model, *whole, scenario.shape.buckets);
  ASSERT_TRUE(cut) << cut.error();
  EXPECT_EQ(cut->buckets, (std::vector<std::int32_t>{3, 1}));
  EXPECT_EQ(cut->ends, (std::vector<std::int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(prepared(kFourStages + rr("buckets: 8")).costs.stages.size(), 4);
}

// The rounded parts add up to the whole, even if there are fewer bytes than buckets.
TEST(StageBuckets, ShareAStagesFiguresEvenly) {
  const StageCost stage{.forward_ns = 10,
                        .backward_ns = 21,
                        .backward_input_ns = 10,
                        .backward_weight_ns = 11,
                        .kept = 5,
                        .released_by_input = 4,
                        .input = 9,
                        .weights = 7,
                        .gradients = 7,
                        .optimizer_state = 14,
                        .transient = 3};
  for (const std::int32_t n : {1, 2, 3, 7, 30}) {
    StageCost sum{};
    for (std::int32_t i = 0; i < n; ++i) {
      const StageCost bucket = bucket_of(stage, i, n);
      EXPECT_EQ(bucket.backward_ns, bucket.backward_input_ns + bucket.backward_weight_ns);
      EXPECT_EQ(bucket.transient, 3);
      sum.forward_ns += bucket.forward_ns;
      sum.backward_ns += bucket.backward_ns;
      sum.kept += bucket.kept;
      sum.input += bucket.input;
      sum.weights += bucket.weights;
      sum.gradients += bucket.gradients;
      sum.optimizer_state += bucket.optimizer_state;
    }
    EXPECT_EQ(sum.forward_ns, stage.forward_ns);
    EXPECT_EQ(sum.backward_ns, stage.backward_ns);
    EXPECT_EQ(sum.kept, stage.kept);
    EXPECT_EQ(sum.input, stage.input);
    EXPECT_EQ(sum.weights, stage.weights);
    EXPECT_EQ(sum.gradients, stage.gradients);
    EXPECT_EQ(sum.optimizer_state, stage.optimizer_state);
  }
}

TEST(StageBuckets, OfStagesAndOfUnitCostsAreEqual) {
  const auto forwards = [](const std::string& model) {
    std::vector<Ns> times;
    for (const StageCost& stage :
         prepared(model + "schedule: {name: 1f1b, stages: 2, microbatches: 2, buckets: [2, "
                          "1]}\n")
             .costs.stages)
      times.push_back(stage.forward_ns);
    return times;
  };
  EXPECT_EQ(forwards(""), (std::vector<Ns>{500'000, 500'000, 1'000'000}));
  EXPECT_EQ(forwards("model: {stages: {forward: [3 ms, 5 ms], backward: 1 ms}}\n"),
            (std::vector<Ns>{1'500'000, 1'500'000, 5'000'000}));
}

TEST(StageBuckets, OfAScheduleThatWeighsCostsAreThoseOfItsStages) {
  const std::string model = "model: {stages: {forward: 3 ms, backward_input: 4 ms, backward_weight: 2 ms}}\n";
  const Experiment whole = prepared(model + "schedule: {name: zb-1p, stages: 3, microbatches: 5}\n");
  const Experiment cut =
      prepared(model + "schedule: {name: zb-1p, stages: 3, microbatches: 5, buckets: 2}\n");
  EXPECT_EQ(cut.program.stage_count(), 6);
  EXPECT_EQ(cut.program.rank_count(), whole.program.rank_count());
}

std::string refused(const std::string& text) {
  const auto experiment = prepare(read_scenario(text));
  return experiment ? "no error" : experiment.error().message;
}

TEST(StageBuckets, OfTheWrongNumberAreRefused) {
  EXPECT_THAT(
      refused(kFourStages + rr("buckets: [2, 1, 1]")),
      HasSubstr("expected one number or a list of 2, one for each stage of the model, got a list of 3"));
  EXPECT_THAT(refused(kFourStages + rr("buckets: [4, 1]")),
              HasSubstr("stage 0 has 3 layers, too few for 4 buckets"));
  EXPECT_THAT(
      refused("model: {stages: {forward: 1 ms, backward: 1 ms, edges: [[0, 1]]}}\nschedule: {name: gpipe, "
              "stages: 2, microbatches: 2, buckets: 2}\n"),
      HasSubstr("leave model.stages.edges out"));
}

}  // namespace
}  // namespace penstock
