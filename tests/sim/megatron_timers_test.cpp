// Tests that Megatron's timers tell what stages cost and which ranks are slow.

#include "sim/hold/megatron_timers.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/test_files.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Returns a log with three reports of 8 ranks: 4 stages of 2 ranks, and 8 microbatches. Stage 3 takes 14 and
/// 29 ms where the others take 10 and 20 ms, and rank 5 takes 15 % longer than rank 4.
std::string log_text() {
  std::ifstream file(source_path("tests/sim/traces/megatron-timers.log"));
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(MegatronTimers, TellTheCostsOfStagesAndTheSlowRanks) {
  ASSERT_TRUE(has_megatron_timers(log_text()));
  const auto timers = read_megatron_timers(log_text(), "x.log", {});
  ASSERT_TRUE(timers) << timers.error();
  EXPECT_EQ(timers->reports, 3);
  EXPECT_EQ(timers->ranks, 8);
  EXPECT_EQ(timers->microbatches, 8) << "64 samples by microbatches of 4 on 2 copies";
  ASSERT_EQ(timers->stages.size(), 4U);
  EXPECT_THAT(timers->stages[2].ranks, ElementsAre(4, 5));
  EXPECT_EQ(timers->stages[0].forward_ns, 10'000'000);
  EXPECT_EQ(timers->stages[3].forward_ns, 14'000'000);
  EXPECT_EQ(timers->stages[3].backward_ns, 29'000'000);
  EXPECT_EQ(timers->stages[2].slowest_rank, 5);
  EXPECT_NEAR(timers->stages[2].slower, 34.5 / 32.25 - 1, 1e-9) << "rank 5 beside the median of both ranks";
  EXPECT_EQ(timers->passes_ns, 505'000'000) << "the median leaves the slow first report out";
}

TEST(MegatronTimers, WhatTheUserStatesCounts) {
  const auto timers =
      read_megatron_timers(log_text(), "x.log", {.stages = 2, .microbatches = 4, .chunks = 2});
  ASSERT_TRUE(timers) << timers.error();
  ASSERT_EQ(timers->stages.size(), 2U);
  EXPECT_EQ(timers->stages[0].forward_ns, 10'000'000) << "80 ms by 4 microbatches and 2 chunks";
  EXPECT_THAT(timers_scenario(*timers, "interleaved", "x.log"),
              HasSubstr("schedule: {name: interleaved, stages: 2, microbatches: 4, virtual_stages: 2}"));
}

TEST(MegatronTimers, LinesOfALauncherAreRead) {
  const std::string text =
      "[default7]:times across ranks (ms):\n[default7]:  forward-compute:\n[default7]:     rank  0: 8.00\n"
      "[default7]:     rank  1: 8.00\n[default7]:  backward-compute:\n[default7]:     rank  0: 16.00\n"
      "[default7]:     rank  1: 24.00\n";
  const auto timers = read_megatron_timers(text, "x.log", {.stages = 2, .microbatches = 4});
  ASSERT_TRUE(timers) << timers.error();
  EXPECT_EQ(timers->stages[1].backward_ns, 6'000'000);
  EXPECT_FALSE(timers->passes_ns);
}

TEST(MegatronTimers, LinesOfOtherProcessesMayStandBetweenLabelledLines) {
  const std::string text =
      " 7: times across ranks (ms):\n 7:   forward-compute:\n 0: WARNING: a message\n 7:      rank  0: 8.00\n"
      " 7:      rank  1: 8.00\n 3: \n 7:   backward-compute:\n 7:      rank  0: 16.00\n"
      " 7:      rank  1: 24.00\n 7:  iteration 2/ 10 | lm loss: 1.0\n 7:      rank  1: 99.00\n";
  const auto timers = read_megatron_timers(text, "x.log", {.stages = 2, .microbatches = 4});
  ASSERT_TRUE(timers) << timers.error();
  EXPECT_EQ(timers->stages[0].forward_ns, 2'000'000);
  EXPECT_EQ(timers->stages[1].backward_ns, 6'000'000);
}

TEST(MegatronTimers, ALoggerMayLabelTheFirstLineOnly) {
  const std::string text =
      "INFO:root:times across ranks (ms):\n  forward-compute:\n     rank  0: 8.00\n  backward-compute:\n"
      "     rank  0: 16.00\n";
  const auto timers = read_megatron_timers(text, "x.log", {.stages = 1, .microbatches = 4});
  ASSERT_TRUE(timers) << timers.error();
  EXPECT_EQ(timers->stages[0].backward_ns, 4'000'000);
}

TEST(MegatronTimers, SayWhatIsMissing) {
  const auto extremes = read_megatron_timers(
      "(min, max) time across ranks (ms):\n    forward-compute ....: (79.10, 112.00)\n", "x.log", {});
  ASSERT_FALSE(extremes);
  EXPECT_EQ(
      extremes.error(),
      "x.log: expected the timers forward-compute and backward-compute of every rank, got the smallest and "
      "the largest only: train with --timing-log-level 2 --timing-log-option all");
  const auto odd = read_megatron_timers(log_text(), "x.log", {.stages = 3});
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error(), "x.log: expected timers of a multiple of 3 ranks, got 8 ranks");
}

}  // namespace
}  // namespace penstock
