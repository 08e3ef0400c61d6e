// A run that the machine's memory cannot hold is refused before it takes any.

#include "sim/runs/memory_need.hpp"

#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/read/load.hpp"
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

}  // namespace
}  // namespace penstock
