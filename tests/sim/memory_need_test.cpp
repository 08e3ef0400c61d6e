// A run that the machine's memory cannot hold is refused before it takes any.

#include "sim/runs/memory_need.hpp"

#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

using testing::Eq;
using testing::Optional;

SimulateOptions options_of(TimelineKept timeline, Engine engine = Engine::automatic) {
  SimulateOptions options;
  options.timeline = timeline;
  options.engine = engine;
  return options;
}

/// 1F1B of many ranks, in which nearly every action has a transfer.
ActionCounts actions(double compute) { return {.compute = compute, .transfers = compute}; }

TEST(MemoryNeed, ARunThatFitsIsNotRefused) {
  EXPECT_EQ(memory_refusal(actions(1'000'000), options_of(TimelineKept::none), [] { return Bytes{1} << 30; }),
            std::nullopt);
  EXPECT_EQ(memory_refusal(ActionCounts{}, {}, [] { return Bytes{0}; }), std::nullopt);
}

TEST(MemoryNeed, ARefusalNamesWhatIsNeededAndWhatThereIs) {
  EXPECT_THAT(
      memory_refusal(actions(1 << 22), options_of(TimelineKept::none), [] { return Bytes{1} << 30; }),
      Optional(Eq("4.19e+06 compute actions take at least 1.09 GiB of memory, and 1.00 GiB are within "
                  "reach: take fewer stages, microbatches or iterations")));
  EXPECT_THAT(
      memory_refusal(actions(1 << 22), options_of(TimelineKept::all, Engine::event),
                     [] { return Bytes{1} << 30; }),
      Optional(Eq("4.19e+06 compute actions take at least 4.10 GiB of memory, and 1.00 GiB are within "
                  "reach: take fewer stages, microbatches or iterations, or no timeline")));
}

TEST(MemoryNeed, OneRankTellsNobody) {
  const auto counts = [](std::string_view stages) {
    const auto scenario = parse_scenario(
        fmt::format("schedule: {{name: 1f1b, stages: {}, microbatches: 64}}", stages), "test.yaml", ".");
    return action_counts(*scenario);
  };
  EXPECT_EQ(counts("1").compute, 128);
  EXPECT_EQ(counts("1").transfers, 0);
  EXPECT_EQ(counts("4").compute, 512);
  EXPECT_EQ(counts("4").transfers, 256);
}

TEST(MemoryNeed, RanksThatHaveAllStagesTellNobody) {
  const auto scenario =
      parse_scenario("schedule: {name: ddp, stages: 4, microbatches: 64}", "test.yaml", ".");
  EXPECT_EQ(action_counts(*scenario).compute, 512);
  EXPECT_EQ(action_counts(*scenario).transfers, 0);
}

Scenario scenario_in(std::string_view folder, std::string_view text) {
  return parse_scenario(text, "test.yaml", source_path(std::string(folder))).value();
}

// Of 128 samples each of the two copies has 64.
TEST(MemoryNeed, OfAModelOnDevicesOneCopyCounts) {
  const Scenario scenario = scenario_in("scenarios/library/models",
                                        "model: {huggingface: llama-3.1-8b.json, sequence: 4096}\n"
                                        "cluster: {device: h100-sxm}\nparallel: {data: 2}\n"
                                        "schedule: {name: 1f1b, stages: 4}\n"
                                        "training: {global_batch_size: 128}\n");
  EXPECT_EQ(action_counts(scenario).compute, 4 * 64 * 2);
  EXPECT_EQ(action_counts(scenario).transfers, 256);
}

TEST(MemoryNeed, OfFittedCostsOneCopyCounts) {
  const Scenario scenario = scenario_in(
      "scenarios/library",
      "model: {fitted: runs/vtrain_costs.json, hidden: 1024, heads: 16, layers: 8, sequence: 1024}\n"
      "parallel: {data: 2}\nschedule: {name: 1f1b, stages: 4}\ntraining: {global_batch_size: 128}\n");
  EXPECT_EQ(action_counts(scenario).compute, 4 * 64 * 2);
}

TEST(MemoryNeed, AProgramIsCountedByItsLists) {
  Scenario scenario = scenario_in(".", "{}");
  scenario.program = *generate("1f1b", {.stages = 4, .microbatches = 16});
  EXPECT_EQ(action_counts(scenario).compute, 4 * (16 * 2 + 1)) << "STEPs, too";
  EXPECT_EQ(action_counts(scenario).transfers, 66);
  scenario.program->iterations = 10;
  EXPECT_EQ(action_counts(scenario).compute, 10 * 4 * (16 * 2 + 1));
}

// A zb-v of so many compute actions has no loops and fits no machine, and nothing is made before that is
// known.
TEST(MemoryNeed, OfAHugeBatchOnDevicesIsKnownBeforeTheRun) {
  const Scenario scenario = scenario_in("scenarios/library/models",
                                        "model: {huggingface: llama-3.1-8b.json, sequence: 4096}\n"
                                        "cluster: {device: h100-sxm}\n"
                                        "schedule: {name: zb-v, stages: 4}\n"
                                        "training: {micro_batch_size: 1, global_batch_size: 400000000}\n");
  for (const WantedFigures figures : {WantedFigures::all, WantedFigures::of_rows}) {
    SimulateOptions options;
    options.timeline = TimelineKept::none;
    options.figures = figures;
    const auto result = simulate_scenario(scenario, options);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, testing::StartsWith("3.2e+09 compute actions take at least "));
  }
  SimulateOptions with_timeline;
  with_timeline.timeline = TimelineKept::all;
  EXPECT_THAT(simulate_scenario(scenario, with_timeline).error().message,
              testing::StartsWith("a timeline of 3.2e+09 compute actions is too long"));
}

TEST(MemoryNeed, WhatCannotBePreparedIsNotCounted) {
  const Scenario scenario = scenario_in("scenarios/library/models",
                                        "model: {huggingface: llama-3.1-8b.json, sequence: 4096}\n"
                                        "cluster: {device: h100-sxm}\nparallel: {data: 3}\n"
                                        "schedule: {name: 1f1b, stages: 4}\n"
                                        "training: {global_batch_size: 128}\n");
  EXPECT_EQ(action_counts(scenario).compute, 0);
}

}  // namespace
}  // namespace penstock
