// Tests the HTML pages: they are well-formed, need no other file, and are complete.

#include "report/pages/html_report.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "report/compare/compare.hpp"
#include "report/result/result.hpp"
#include "report/result/sweep_table.hpp"
#include "report/timeline/timeline.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
#include "tests/report/markup.hpp"
#include "tests/report/sample_result.hpp"

namespace penstock {
namespace {

using sample::markup_fault;
using sample::occurrences;

Result page_sample(const sample::Shape& shape = {.ranks = 3, .microbatches = 4, .transfer_ns = 1'000}) {
  return sample::result_of(sample::timeline_of(sample::one_f_one_b(shape), shape), shape);
}

void expect_self_contained(const std::string& page) {
  EXPECT_EQ(markup_fault(page), "");
  EXPECT_EQ(page.find(" src="), std::string::npos);
  EXPECT_EQ(page.find(" href="), std::string::npos);
  EXPECT_EQ(occurrences(page, "http"), occurrences(page, "xmlns=\"http://www.w3.org/2000/svg\""));
}

TEST(ResultHtml, HasAViewerWithAPictureAndTables) {
  const std::string page = result_to_html(page_sample());
  expect_self_contained(page);
  EXPECT_EQ(occurrences(page, "<div class=\"viewer\">"), 1U);
  EXPECT_EQ(occurrences(page, "<svg "), 1U) << "for readers without scripts";
  EXPECT_EQ(occurrences(page, "<table class=\"figures"), 3U);
  EXPECT_NE(page.find("<h1>1f1b with K = 3 and M = 4, measured</h1>"), std::string::npos);
}

TEST(ResultHtml, HasTheCausesOfIdleTimeAboveTheTimeline) {
  Explanation why;
  why.ranks = 3;
  why.makespan_ns = 10'000'000;
  why.busy_ns = 24'000'000;
  why.bill = {{.cause = "fill", .idle_ns = 6'000'000}};
  why.intervals = {{.rank = 1, .before = "1F0", .start_ns = 0, .end_ns = 2'000'000, .ideal_ns = 2'000'000},
                   {.rank = 2, .before = "2F0", .start_ns = 0, .end_ns = 4'000'000, .ideal_ns = 4'000'000}};
  const std::string page = result_to_html(page_sample(), &why);
  expect_self_contained(page);
  EXPECT_NE(page.find("<tr><td>fill</td><td>2.000 ms</td>"), std::string::npos);
  EXPECT_LT(page.find("<div class=\"scroll causes\">"), page.find("<div class=\"viewer\">"));
  EXPECT_NE(page.find("<li>rank 2 idle 4.000 ms before 2F0 (0.000 ms .. 4.000 ms): order 4.000 ms</li>"),
            std::string::npos);
}

TEST(ResultHtml, KIsTheNumberOfStagesWhereStagesHaveReplicas) {
  Result result = page_sample();
  result.program.stages = 2;
  EXPECT_NE(result_to_html(result).find("<h1>1f1b with K = 2 and M = 4, measured</h1>"), std::string::npos);
}

TEST(ResultHtml, EscapesEveryName) {
  Result result = page_sample();
  result.scenario = result.engine = result.program.schedule = "<script>alert('x')</script>";
  result.notes = {result.scenario};
  result.links[0].link = result.scenario;
  result.ranks[0].device = result.scenario;
  const std::string page = result_to_html(result);
  expect_self_contained(page);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
}

TEST(ResultHtml, AnEmptyResultIsAPage) {
  const std::string page = result_to_html({});
  expect_self_contained(page);
  EXPECT_EQ(page.find("<svg"), std::string::npos);
}

TEST(ResultHtml, SaysWhichRankIsOutOfMemory) {
  Result result = page_sample();
  result.ranks[1].memory.capacity = 1024;
  EXPECT_NE(result_to_html(result).find("<p class=\"alarm\">Out of memory: rank 1 (H100-1) needs"),
            std::string::npos);
}

TEST(SweepHtml, BeginsWithTheFastestConfigurationThatFits) {
  Sweep sweep = sample::small_sweep();
  sweep.rows[0].peak_bytes = sweep.rows[5].peak_bytes = Bytes{3} << 30;  // gpipe, K = 1
  sweep.rows[9].throughput.steady_samples_per_second = 400;              // 1f1b, K = 2, M = 4
  const std::string page = sweep_to_html(sweep);
  EXPECT_NE(
      page.find(
          "<strong>1f1b with K = 2, b = 1 and M = 4</strong> is the fastest configuration that fits: "
          "400.000 samples/s. Its fullest rank needs 1.00 GiB.</p>\n"
          "<p>It is 20.00 % faster than gpipe with K = 1, b = 1 and M = 1, and needs 2.00 GiB less.</p>"),
      std::string::npos);
  // Both schedules are in the chart of throughput and memory. gpipe with K = 1 needs more memory and is
  // faster.
  const std::string chart = page.substr(page.find("Throughput and memory"));
  EXPECT_LT(chart.find("<title>gpipe with K = 1, b = 1 and M = 1, 3: 333.333</title>"), chart.find("</svg>"));
  EXPECT_LT(chart.find("<title>1f1b with K = 2, b = 1 and M = 4, 1: 400</title>"), chart.find("</svg>"));
}

TEST(SweepHtml, HasTheBillsOfTheBestAndOfTheRunnerUp) {
  Sweep sweep = sample::small_sweep();
  const MeanBill best{.makespan_ns = 30'000'000, .lines = {{"work", 24'000'000}, {"drain", 6'000'000}}};
  const MeanBill second{.makespan_ns = 33'000'000, .lines = {{"work", 24'000'000}, {"imbalance", 9'000'000}}};
  const std::vector<std::size_t> numbers = best_two(sweep);
  ASSERT_EQ(numbers.size(), 2U);
  sweep.bills = {{numbers[0], best}, {numbers[1], second}};
  const std::string page = sweep_to_html(sweep);
  expect_self_contained(page);
  EXPECT_NE(page.find("<h2>Where the time goes, of the mean rank</h2>"), std::string::npos);
  EXPECT_NE(page.find("<tr><td>drain</td><td>6.000 ms</td><td>0.000 ms</td><td>-6.000 ms</td></tr>"),
            std::string::npos);
  EXPECT_NE(page.find("<tr><td>makespan</td>"), std::string::npos);
}

TEST(SweepHtml, MarksTheUsableMemory) {
  Sweep sweep = sample::small_sweep();
  EXPECT_EQ(sweep_to_html(sweep).find("usable memory"), std::string::npos) << "memory is unlimited";
  sweep.usable_bytes = std::int64_t{2} << 30;
  EXPECT_NE(sweep_to_html(sweep).find(">usable memory</text>"), std::string::npos);
}

TEST(SweepHtml, HasTwoChartsAndAMapASchedule) {
  const std::string page = sweep_to_html(sample::small_sweep());
  expect_self_contained(page);
  EXPECT_EQ(occurrences(page, "<svg "), 1U + 4U);
  EXPECT_EQ(occurrences(page, "<table class=\"fit\">"), 2U);
  EXPECT_EQ(occurrences(page, "class=\"best\""), 4U);  // in both schedules, two points are equally good
  EXPECT_EQ(occurrences(page, "stroke-dasharray"), 2U);
}

TEST(SweepHtml, GroupsWhatWasLeftOutByItsReason) {
  const std::string page = sweep_to_html(sample::small_sweep());
  EXPECT_NE(page.find("<td>gpipe</td><td>3 stages need 3 devices, there are 2</td><td>2</td>"
                      "<td>K = 3: M = 1, 4</td>"),
            std::string::npos);
  EXPECT_NE(page.find("<h2>What does not fit into memory</h2>"), std::string::npos);
  EXPECT_EQ(page.find("<h2>What failed</h2>"), std::string::npos);
}

TEST(SweepHtml, WhatDoesNotFitIsSortedByWhatItNeedsAndNotByItsText) {
  Sweep sweep = sample::small_sweep();
  for (const Bytes gibibytes : {17, 127, 5}) {
    SweepRow row = sweep.rows[0];
    row.status = SweepStatus::out_of_memory;
    row.peak_bytes = gibibytes << 30;
    row.reason = "rank 0 needs " + std::to_string(gibibytes) + ".00 GiB, its device has 4.00 GiB";
    sweep.rows.push_back(row);
  }
  const std::string page = sweep_to_html(sweep);
  const std::string section = page.substr(page.find("What does not fit into memory"));
  EXPECT_LT(section.find("needs 5.00 GiB"), section.find("needs 17.00 GiB"));
  EXPECT_LT(section.find("needs 17.00 GiB"), section.find("needs 127.00 GiB"));
  EXPECT_NE(section.find("<td>127.00 GiB</td>"), std::string::npos);
}

TEST(SweepHtml, MicrobatchSizesTellCurvesApartWhereShapesRepeat) {
  Sweep sweep = sample::small_sweep();
  SweepRow again = sweep.rows[0];
  again.micro_batch_size = 8;
  sweep.rows.push_back(again);
  EXPECT_NE(sweep_to_html(sweep).find(">K = 1, b = 8</text>"), std::string::npos);
}

TEST(SweepHtml, AnEmptySweepIsAPage) {
  const std::string page = sweep_to_html({});
  expect_self_contained(page);
  EXPECT_NE(page.find("No configuration ran and fits into memory."), std::string::npos);
}

/// A prediction, and a measurement in which every action takes a tenth longer.
struct Twins {
  Result predicted = page_sample();
  Result measured = predicted;

  Twins() {
    predicted.kind = ResultKind::predicted;
    measured.timeline.makespan_ns += measured.timeline.makespan_ns / 10;
    for (Span& span : measured.timeline.spans) {
      span.start_ns += span.start_ns / 10;
      span.end_ns += span.end_ns / 10;
    }
    measured.makespan_ns = measured.timeline.makespan_ns;
  }
};

TEST(ComparisonHtml, HasAViewerOfBothRunsAndTheVerdict) {
  const Twins twins;
  const auto comparison = compare_results(twins.predicted, twins.measured, {});
  ASSERT_TRUE(comparison) << comparison.error().message;
  const std::string page = comparison_to_html(*comparison, {twins.predicted, twins.measured});
  expect_self_contained(page);
  EXPECT_EQ(occurrences(page, "<div class=\"viewer\">"), 1U);
  EXPECT_EQ(occurrences(page, "<svg "), 2U) << "a picture a run";
  for (const char* const name : {"<figcaption>predicted</figcaption>", "<figcaption>measured</figcaption>"})
    EXPECT_EQ(occurrences(page, name), 1U);
  EXPECT_EQ(occurrences(page, "class=\"alarm\""), 1U) << "10 % is beyond the tolerance";
}

TEST(ComparisonHtml, HasTheErrorOfEachCause) {
  const Twins twins;
  auto comparison = compare_results(twins.predicted, twins.measured, {});
  ASSERT_TRUE(comparison) << comparison.error().message;
  comparison->causes = {{.cause = "imbalance", .before_ns = 3'000'000, .after_ns = 1'000'000}};
  const std::string page = comparison_to_html(*comparison, {twins.predicted, twins.measured});
  expect_self_contained(page);
  EXPECT_NE(page.find("<h2>Error by cause, of the mean rank</h2>"), std::string::npos);
  EXPECT_NE(page.find("<tr><td>imbalance</td><td>1.000 ms</td>"), std::string::npos);
}

TEST(ComparisonHtml, WithinItsTolerancesItHasNoAlarm) {
  const Twins twins;
  const auto comparison = compare_results(twins.predicted, twins.measured, {.makespan = 1, .bubble = 1});
  ASSERT_TRUE(comparison);
  const std::string page = comparison_to_html(*comparison, {twins.predicted, twins.measured});
  EXPECT_EQ(occurrences(page, "class=\"alarm\""), 0U);
}

TEST(ComparisonHtml, WithoutTimelinesItSaysHowToGetThem) {
  Twins twins;
  twins.measured.timeline.spans.clear();
  const auto comparison = compare_results(twins.predicted, twins.measured, {});
  ASSERT_TRUE(comparison);
  const std::string page = comparison_to_html(*comparison, {twins.predicted, twins.measured});
  expect_self_contained(page);
  EXPECT_EQ(occurrences(page, "<svg "), 0U);
  EXPECT_NE(page.find("--timeline"), std::string::npos);
}

TEST(ComparisonHtml, SeveralSchedulesHaveARankingAndAPictureEach) {
  const Twins twins;
  const auto comparison = compare_results(twins.predicted, twins.measured, {});
  ASSERT_TRUE(comparison);
  const std::vector<ResultPair> pairs = {{twins.predicted, twins.measured},
                                         {twins.predicted, twins.measured}};
  Ranking ranking = ranking_of(pairs, 0.03);
  ranking.wrong.push_back({.faster = "gpipe", .slower = "<1f1b>", .measured_gap = 0.1, .predicted_gap = 0});
  const std::string page = comparisons_to_html({*comparison, *comparison}, pairs, ranking);
  expect_self_contained(page);
  EXPECT_EQ(occurrences(page, "<div class=\"viewer\">"), 2U);
  EXPECT_NE(page.find("Ranked wrong: gpipe was measured to be faster than &lt;1f1b&gt;"), std::string::npos);
}

}  // namespace
}  // namespace penstock
