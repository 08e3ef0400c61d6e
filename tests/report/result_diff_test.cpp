// What changes between two results, on pipelines small enough to see.

#include "report/compare/result_diff.hpp"

#include <limits>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/cost_table.hpp"
#include "sim/engines/engines.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

Result result_of(const char* schedule, Ns latency_ns) {
  const Experiment experiment =
      uniform_experiment(schedule, {.stages = 2, .microbatches = 2}, {.latency_ns = latency_ns});
  return summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
}

TEST(ResultDiff, OfAResultWithItselfIsEmpty) {
  const ResultDiff diff = diff_results(result_of("gpipe", 0), result_of("gpipe", 0));
  EXPECT_TRUE(diff.empty());
  EXPECT_EQ(to_text(diff, 10), "");
}

// latency 0: 9 ns, latency 1: 11 ns. Rank 1 does all one later, rank 0 its backwards two later.
TEST(ResultDiff, ShowsWhatALinkMovesAndByHowMuch) {
  const ResultDiff diff = diff_results(result_of("gpipe", 0), result_of("gpipe", 1));
  ASSERT_FALSE(diff.figures.rows.empty());
  EXPECT_EQ(diff.figures.rows[0][0].text, "makespan");
  EXPECT_EQ(diff.figures.rows[0][1].value, 9);
  EXPECT_EQ(diff.figures.rows[0][2].value, 11);
  EXPECT_EQ(diff.figures.rows[0][3].text, "+22.22 %");
  EXPECT_EQ(diff.moved.front(), (MovedAction{1, "1F0", 1, 2, 2, 3}));
  EXPECT_THAT(to_text(diff, 1), testing::HasSubstr("  rank 1 1F0: 1 ns .. 2 ns -> 2 ns .. 3 ns\n  and "));
}

TEST(ResultDiff, CountsActionsThatOnlyOneHas) {
  const ResultDiff diff = diff_results(result_of("1f1b", 0), result_of("zb-h1", 0));
  EXPECT_EQ(diff.only_before, 4) << "the Bs, which are I and W afterwards";
  EXPECT_EQ(diff.only_after, 8);
}

// A measurement knows no steady rate: that is no rate of 0, and no change.
TEST(ResultDiff, ARateThatOneDoesNotSayIsNoChange) {
  Result before = result_of("gpipe", 0);
  Result after = before;
  before.throughput.steady_samples_per_second = 200;
  after.throughput.steady_samples_per_second = std::nullopt;
  EXPECT_TRUE(diff_results(before, after).empty());
  EXPECT_TRUE(diff_results(after, before).empty());
  after.throughput.steady_samples_per_second = 100;
  ASSERT_EQ(diff_results(before, after).figures.rows.size(), 1U);
  EXPECT_EQ(diff_results(before, after).figures.rows[0][3].text, "-50.00 %");
}

TEST(ResultDiff, WithoutTimelinesComparesFiguresOnly) {
  Result before = result_of("gpipe", 0);
  before.timeline.spans.clear();
  const ResultDiff diff = diff_results(before, result_of("gpipe", 1));
  EXPECT_FALSE(diff.figures.rows.empty());
  EXPECT_TRUE(diff.moved.empty());
}

TEST(ResultDiff, AnAmountOfAnotherUnitIsNoPartOfTheOther) {
  Result before = result_of("gpipe", 0);
  Result after = before;
  before.ranks[0].memory.unit = MemoryUnit::bytes;
  before.ranks[0].memory.peak_bytes = 8LL << 30;
  after.ranks[0].memory.unit = MemoryUnit::activations;
  after.ranks[0].memory.peak_bytes = 8 * kActivationParts;
  const ResultDiff diff = diff_results(before, after);
  ASSERT_EQ(diff.figures.rows.size(), 1U);
  EXPECT_EQ(diff.figures.rows[0][1].text, "8.00 GiB");
  EXPECT_EQ(diff.figures.rows[0][2].text, "8 activations");
  EXPECT_EQ(diff.figures.rows[0][3].text, "other unit");
}

TEST(ResultDiff, TheLongestTimeIsNotNegative) {
  Result before;
  before.makespan_ns = std::numeric_limits<Ns>::max();
  const ResultDiff diff = diff_results(before, Result{});
  ASSERT_EQ(diff.figures.rows.size(), 1U);
  EXPECT_EQ(diff.figures.rows[0][1].text, "9000000000.000 s");
}

}  // namespace
}  // namespace penstock
