// What stages take and keep where no model is given, and how many chunks a rank has where none are stated.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "sim/memory/memory.hpp"

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

// A rank holds two stages of two copies of the model, and a microbatch passes one of them.
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

}  // namespace
}  // namespace penstock
