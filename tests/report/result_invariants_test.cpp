// A result that cannot be is neither made nor read.

#include "report/result/result_invariants.hpp"

#include <functional>
#include <limits>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "report/result/result_json.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

/// Two ranks that are busy for 60 and 90 of 100 ns.
Result possible() {
  Result result;
  result.makespan_ns = 100;
  result.program.schedule = "1f1b";
  result.program.ranks = result.program.stages = 2;
  result.program.microbatches = 1;
  for (const Ns busy_ns : {60, 90}) {
    RankReport rank;
    rank.rank = static_cast<std::int32_t>(result.ranks.size());
    rank.busy_ns = busy_ns;
    rank.idle_ns = 100 - busy_ns;
    result.ranks.push_back(rank);
  }
  result.bubble = {.idle_over_total = 0.25, .idle_over_ideal = 1.0 / 3, .longest_span_rate = 0.1};
  return result;
}

std::string fault_after(const std::function<void(Result&)>& change) {
  Result result = possible();
  change(result);
  return broken_invariant(result).value_or("none");
}

TEST(ResultInvariants, APossibleResultBreaksNone) { EXPECT_EQ(broken_invariant(possible()), std::nullopt); }

TEST(ResultInvariants, NobodyIsBusyForLongerThanTheMakespanNorForLessThanNothing) {
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[1].busy_ns = 101; }),
            "rank 1 is busy for 101 ns of a makespan of 100 ns");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[0].busy_ns = -1; }),
            "rank 0 is busy for -1 ns of a makespan of 100 ns");
}

TEST(ResultInvariants, TheSlackOfAMeasurementPassesNoLimitOfNumbers) {
  EXPECT_EQ(fault_after([](Result& r) {
              r.kind = ResultKind::measured;
              r.makespan_ns = std::numeric_limits<Ns>::max();
            }),
            "none");
}

TEST(ResultInvariants, BubblesAreParts) {
  EXPECT_THAT(fault_after([](Result& r) { r.bubble.idle_over_total = 2.11; }),
              HasSubstr("idle over total is 2.11, not in ["));
  EXPECT_THAT(fault_after([](Result& r) { r.bubble.idle_over_total = -0.1; }), HasSubstr("idle over total"));
  EXPECT_THAT(
      fault_after([](Result& r) { r.bubble.longest_span_rate = std::numeric_limits<double>::quiet_NaN(); }),
      HasSubstr("idle of the longest span is nan"));
}

TEST(ResultInvariants, AmountsAreNotNegative) {
  EXPECT_EQ(fault_after([](Result& r) { r.makespan_ns = -9; }), "the makespan is -9, below 0");
  EXPECT_THAT(fault_after([](Result& r) { r.ranks[0].sent_bytes = -1; }), HasSubstr("sent bytes is -1"));
  EXPECT_THAT(fault_after([](Result& r) { r.ranks[0].memory.at_peak[0] = -2; }),
              HasSubstr("memory at the peak"));
  EXPECT_THAT(fault_after([](Result& r) { r.links.push_back({"a", -3}); }), HasSubstr("bytes of a link"));
}

TEST(ResultInvariants, ADocumentThatBreaksOneIsNotRead) {
  Result result = possible();
  ASSERT_TRUE(result_from_json(result_to_json(result), "a.json"))
      << result_from_json(result_to_json(result), "a.json").error();
  result.bubble.idle_over_total = 2.11;
  EXPECT_THAT(result_from_json(result_to_json(result), "a.json").error(),
              testing::StartsWith("a.json: holds a result that cannot be: idle over total is 2.11"));
}

}  // namespace
}  // namespace penstock
