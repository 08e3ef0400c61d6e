// Scenarios that are too long to be stored, from text to Result.

#include "sim/runs/streamed_run.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "scenarios/read/load.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

Scenario parsed(const std::string& text) { return *parse_scenario(text, "long.yaml", "."); }

const SimulateOptions kFigures{
    .memory = {.samples = false}, .steady = SteadyState::skip, .timeline = TimelineKept::none};

TEST(StreamedRun, GivesTheFiguresOfALongPass) {
  const auto result =
      simulate_scenario(parsed("schedule: {name: 1f1b, stages: 64, microbatches: 262144}"), kFigures);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->engine, "streamed");
  EXPECT_EQ(result->makespan_ns, (262'144 + 63) * Ns{3'000'000});
  EXPECT_EQ(result->program.microbatches, 262'144);
  EXPECT_EQ(result->program.digest, "");
  EXPECT_TRUE(result->timeline.spans.empty());
  ASSERT_EQ(result->ranks.size(), 64U);
  EXPECT_EQ(result->ranks[0].memory.peak_bytes, 64);
  EXPECT_EQ(result->ranks[0].memory.unit, MemoryUnit::activations);
  EXPECT_EQ(result->ranks[63].peak_live_activations, 1);
  EXPECT_DOUBLE_EQ(result->bubble.idle_over_ideal, 63.0 / 262'144);
  EXPECT_THAT(result->notes, testing::Contains(testing::HasSubstr("were streamed, not stored")));
}

TEST(StreamedRun, GivesTheSteadyRateOfAStream) {
  const auto result =
      simulate_scenario(parsed("schedule: {name: 1f1b-rr, stages: 64, microbatches: 262144}"), kFigures);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_DOUBLE_EQ(result->throughput.steady_samples_per_second.value_or(0), 1e9 / 3e6);
  EXPECT_DOUBLE_EQ(result->throughput.samples_per_update, 1);
  EXPECT_EQ(result->ranks[0].weight_versions, 64);
}

TEST(StreamedRun, LeavesShortPassesToTheEngines) {
  const Scenario scenario = parsed("schedule: {name: 1f1b, stages: 4, microbatches: 16}");
  EXPECT_FALSE(is_long(scenario));
  const auto result = simulate_scenario(scenario, kFigures);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->engine, "critical-path");
}

TEST(StreamedRun, SaysWhyALongPassIsRefused) {
  const std::string schedule = "schedule: {name: 1f1b, stages: 4096, microbatches: 131072";
  const auto refusal = [&](const std::string& more, const SimulateOptions& options) {
    const auto result = simulate_scenario(parsed(schedule + more + "}"), options);
    return result ? "not refused" : result.error().message;
  };
  EXPECT_THAT(refusal(", blocking: true", kFigures), testing::HasSubstr("blocking channels"));
  EXPECT_THAT(refusal("", {}), testing::HasSubstr("leave out --timeline"));
  const auto weighing =
      simulate_scenario(parsed("schedule: {name: zb-v, stages: 4096, microbatches: 131072}"), kFigures);
  ASSERT_FALSE(weighing);
  EXPECT_THAT(weighing.error().message, testing::HasSubstr("weighs what stages cost cannot be streamed"));
}

}  // namespace
}  // namespace penstock
