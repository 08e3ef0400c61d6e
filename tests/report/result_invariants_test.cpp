// A result that cannot be is neither made nor read.

#include "report/result/result_invariants.hpp"

#include <functional>
#include <limits>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

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

Span ending_at(Ns end_ns) {
  Span span;
  span.action = {.kind = ActionKind::forward, .stage = 0, .microbatch = 0};
  span.end_ns = end_ns;
  return span;
}

std::string fault_after(const std::function<void(Result&)>& change) {
  Result result = possible();
  change(result);
  return broken_invariant(result).value_or("none");
}

TEST(ResultInvariants, APossibleResultBreaksNone) { EXPECT_EQ(broken_invariant(possible()), std::nullopt); }

TEST(ResultInvariants, NobodyIsBusyForLongerThanTheMakespanNorForLessThanNothing) {
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[1].busy_ns = 101; }),
            "ranks[1].busy_ns: expected a time up to the makespan, 100, got 101");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[0].busy_ns = -1; }),
            "ranks[0].busy_ns: expected a time up to the makespan, 100, got -1");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[0].idle_ns = 101; }),
            "ranks[0].idle_ns: expected a time up to the makespan, 100, got 101");
}

TEST(ResultInvariants, TheSlackOfAMeasurementPassesNoLimitOfNumbers) {
  EXPECT_EQ(fault_after([](Result& r) {
              r.kind = ResultKind::measured;
              r.makespan_ns = std::numeric_limits<Ns>::max();
            }),
            "none");
}

TEST(ResultInvariants, BubblesAreParts) {
  EXPECT_EQ(fault_after([](Result& r) { r.bubble.idle_over_total = 2.11; }),
            "bubble.idle_over_total: expected a part in [0, 1], got 2.11");
  EXPECT_EQ(fault_after([](Result& r) { r.bubble.idle_over_total = -0.1; }),
            "bubble.idle_over_total: expected a part in [0, 1], got -0.1");
  EXPECT_EQ(
      fault_after([](Result& r) { r.bubble.longest_span_rate = std::numeric_limits<double>::quiet_NaN(); }),
      "bubble.longest_span_rate: expected a part in [0, 1], got nan");
  EXPECT_EQ(fault_after([](Result& r) { r.bubble.idle_over_ideal = -2; }),
            "bubble.idle_over_ideal: expected at least 0, got -2");
}

TEST(ResultInvariants, AmountsAreNotNegative) {
  EXPECT_EQ(fault_after([](Result& r) { r.makespan_ns = -9; }), "makespan_ns: expected at least 0, got -9");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[0].sent_bytes = -1; }),
            "ranks[0].sent_bytes: expected at least 0, got -1");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[0].memory.at_peak[0] = -2; }),
            "ranks[0].memory.at_peak.weights: expected at least 0, got -2");
  EXPECT_EQ(fault_after([](Result& r) { r.links.push_back({"a", -3}); }),
            "links[0].bytes: expected at least 0, got -3");
  EXPECT_EQ(fault_after([](Result& r) { r.clock_error_ns = -4; }),
            "clock_error_ns: expected at least 0, got -4");
}

TEST(ResultInvariants, RatesAreNotNegative) {
  EXPECT_EQ(fault_after([](Result& r) { r.throughput.samples_per_second = -1; }),
            "throughput.samples_per_second: expected at least 0, got -1");
  EXPECT_EQ(fault_after([](Result& r) { r.throughput.steady_samples_per_second = -0.5; }),
            "throughput.steady_samples_per_second: expected at least 0, got -0.5");
  EXPECT_EQ(fault_after([](Result& r) { r.throughput.model = {.mfu = -0.4}; }),
            "throughput.mfu: expected at least 0, got -0.4");
}

// A measurement's devices may be others than those that its model names.
TEST(ResultInvariants, NoPredictionPassesThePeak) {
  const auto with_mfu = [](ResultKind kind, double mfu) {
    return fault_after([&](Result& r) {
      r.kind = kind;
      r.throughput.model = {.mfu = mfu};
    });
  };
  EXPECT_EQ(with_mfu(ResultKind::predicted, 1), "none");
  EXPECT_EQ(with_mfu(ResultKind::predicted, 1.5),
            "throughput.mfu: expected a part of the devices' peak, at most 1, got 1.5");
  EXPECT_EQ(with_mfu(ResultKind::measured, 1.5), "none");
}

TEST(ResultInvariants, ThereIsAnEntryARank) {
  EXPECT_EQ(fault_after([](Result& r) { r.ranks.pop_back(); }),
            "ranks: expected as many as program.ranks says, 2, got 1");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[1].rank = 0; }), "ranks[1].rank: expected 1, got 0");
  EXPECT_EQ(fault_after([](Result& r) { r.program.pipeline_size = 3; }),
            "program.pipeline_size: expected at most program.ranks, 2, got 3");
  // Four stages, each on both ranks.
  const auto of_buckets = [](std::int32_t pipeline_size) {
    return fault_after([&](Result& r) {
      r.program.schedule = "data-parallel";
      r.program.stages = 4;
      r.program.pipeline_size = pipeline_size;
    });
  };
  EXPECT_EQ(of_buckets(4), "none");
  EXPECT_EQ(of_buckets(5), "program.pipeline_size: expected at most program.stages, 4, got 5");
}

TEST(ResultInvariants, NothingEndsAfterTheMakespan) {
  EXPECT_EQ(fault_after([](Result& r) {
              r.timeline = {.rank_count = 2, .makespan_ns = 100, .spans = {ending_at(100), ending_at(101)}};
            }),
            "timeline[1].end_ns: expected a time up to the makespan, 100, got 101");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[1].memory.peak_time_ns = 101; }),
            "ranks[1].memory.peak_time_ns: expected a time up to the makespan, 100, got 101");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[1].memory.samples = {{.time_ns = 1}, {.time_ns = 200}}; }),
            "ranks[1].memory.samples[1].time_ns: expected a time up to the makespan, 100, got 200");
  EXPECT_EQ(fault_after([](Result& r) { r.ranks[0].exposed_communication_ns = 101; }),
            "ranks[0].exposed_communication_ns: expected a time up to the makespan, 100, got 101");
}

TEST(ResultInvariants, ADocumentThatBreaksOneIsNotRead) {
  Result result = possible();
  ASSERT_TRUE(result_from_json(result_to_json(result), "a.json"))
      << result_from_json(result_to_json(result), "a.json").error();
  result.bubble.idle_over_total = 2.11;
  EXPECT_EQ(result_from_json(result_to_json(result), "a.json").error(),
            "a.json: bubble.idle_over_total: expected a part in [0, 1], got 2.11; no run can have such a "
            "result; make it again");
  result = possible();
  result.timeline = {.rank_count = 2, .makespan_ns = 100, .spans = {ending_at(1'000'000'000'000'000'000)}};
  EXPECT_EQ(result_from_json(result_to_json(result, {.timeline = true}), "a.json").error(),
            "a.json: timeline[0].end_ns: expected a time up to the makespan, 100, got 1000000000000000000; "
            "no run can have such a result; make it again");
}

}  // namespace
}  // namespace penstock
