// A run that the machine's memory cannot hold is refused before it takes any.

#include "sim/runs/memory_need.hpp"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/simulate.hpp"

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
  EXPECT_EQ(memory_refusal(actions(1'000'000), options_of(TimelineKept::none), Bytes{1} << 30), std::nullopt);
  EXPECT_EQ(memory_refusal(ActionCounts{}, {}, 0), std::nullopt);
}

TEST(MemoryNeed, ARefusalNamesWhatIsNeededAndWhatThereIs) {
  EXPECT_THAT(
      memory_refusal(actions(1 << 22), options_of(TimelineKept::none), Bytes{1} << 30),
      Optional(Eq("4.19e+06 compute actions take at least 1.09 GiB of memory, and 1.00 GiB are within "
                  "reach: take fewer stages, microbatches or iterations")));
  EXPECT_THAT(
      memory_refusal(actions(1 << 22), options_of(TimelineKept::all, Engine::event), Bytes{1} << 30),
      Optional(Eq("4.19e+06 compute actions take at least 4.49 GiB of memory, and 1.00 GiB are within "
                  "reach: take fewer stages, microbatches or iterations, or no timeline")));
}

TEST(MemoryNeed, ATextOfTheTimelineTakesItsShare) {
  SimulateOptions options = options_of(TimelineKept::all);
  const Bytes enough_for_the_run = Bytes{2} << 30;
  EXPECT_EQ(memory_refusal(actions(1 << 22), options, enough_for_the_run), std::nullopt);
  for (const TimelineText text : {TimelineText::json, TimelineText::trace}) {
    options.text = text;
    EXPECT_NE(memory_refusal(actions(1 << 22), options, enough_for_the_run), std::nullopt);
  }
}

TEST(MemoryNeed, OneRankTellsNobody) {
  Scenario scenario;
  scenario.schedule = "1f1b";
  scenario.shape.microbatches = 64;
  EXPECT_EQ(action_counts(scenario).transfers, 0);
  scenario.shape.stages = 4;
  EXPECT_GT(action_counts(scenario).transfers, 0);
}

TEST(MemoryNeed, TheMachineHasLessWithinReachThanItHas) {
  const auto available = available_memory();
  const auto within_reach = memory_within_reach();
  ASSERT_TRUE(available);
  ASSERT_TRUE(within_reach);
  EXPECT_GT(*within_reach, 0);
  EXPECT_LT(*within_reach, *available);
}

}  // namespace
}  // namespace penstock
