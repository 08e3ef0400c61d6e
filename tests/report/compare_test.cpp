// Compares predictions with measurements that differ from them in known ways.

#include <cstddef>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/compare/compare.hpp"
#include "report/compare/result_diff.hpp"
#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

/// Returns a result of one rank that runs F and then B with these durations. The pause between the two is
/// `pause` ns.
Result result_of(ResultKind kind, Ns forward_ns, Ns pause_ns, Ns backward_ns) {
  Program program;
  program.schedule = "tiny";
  program.microbatches = 1;
  program.placement.stages = {{.ranks = {0}}};
  const Action forward{.kind = ActionKind::forward, .microbatch = 0};
  const Action backward{.kind = ActionKind::backward, .microbatch = 0};
  program.ranks = {{forward, backward}};
  const Ns begin = forward_ns + pause_ns;
  const Timeline timeline{
      .rank_count = 1,
      .makespan_ns = begin + backward_ns,
      .spans = {{.rank = 0, .action = forward, .start_ns = 0, .end_ns = forward_ns},
                {.rank = 0, .action = backward, .start_ns = begin, .end_ns = begin + backward_ns}}};
  const CostTable costs{.stages = {StageCost{}}, .edges = {}};
  Result result = summarize(timeline, {.program = program, .costs = costs});
  result.kind = kind;
  result.channel = "directed";
  return result;
}

// Each character is 10 ns:
//
//   predicted   FFFFFFFFFFBBBBBBBBBBBBBBBBBBBB
//   measured    FFFFFFFFFFF..BBBBBBBBBBBBBBBBBBBBBBBBBBB
const Result kPredicted = result_of(ResultKind::predicted, 100, 0, 200);
const Result kMeasured = result_of(ResultKind::measured, 110, 20, 270);

/// Returns a result of two ranks. F of stage 0 takes 100 on rank 0, and the message takes `transfer_ns`. Then
/// rank 1 launches its F, which takes 50.
Result two_ranks(ResultKind kind, Ns transfer_ns, Ns launch_ns) {
  Program program;
  program.schedule = "two";
  program.microbatches = 1;
  program.placement.stages = {{.ranks = {0}}, {.ranks = {1}}};
  const Action first{.kind = ActionKind::forward, .stage = 0, .microbatch = 0};
  const Action send{.kind = ActionKind::send_forward, .stage = 0, .microbatch = 0, .peer = 1};
  const Action receive{.kind = ActionKind::recv_forward, .stage = 1, .microbatch = 0, .peer = 0};
  const Action second{.kind = ActionKind::forward, .stage = 1, .microbatch = 0};
  program.ranks = {{first, send}, {receive, second}};
  const Ns arrival = 100 + transfer_ns;
  const Ns start = arrival + launch_ns;
  const Timeline timeline{.rank_count = 2,
                          .makespan_ns = start + 50,
                          .spans = {{.rank = 0, .action = first, .start_ns = 0, .end_ns = 100},
                                    {.rank = 0, .action = send, .start_ns = 100, .end_ns = arrival},
                                    {.rank = 1, .action = receive, .start_ns = 100, .end_ns = arrival},
                                    {.rank = 1, .action = second, .start_ns = start, .end_ns = start + 50}}};
  const CostTable costs = uniform_costs(program, {});
  Result result = summarize(timeline, {.program = program, .costs = costs});
  result.kind = kind;
  result.channel = "directed";
  return result;
}

const Result kTwoRanksPredicted = two_ranks(ResultKind::predicted, 0, 0);
const Result kTwoRanksMeasured = two_ranks(ResultKind::measured, 40, 20);

const ComparedFigure& figure(const Comparison& comparison, const std::string& name) {
  for (const ComparedFigure& f : comparison.figures) {
    if (f.name == name) return f;
  }
  throw std::runtime_error("no figure " + name);
}

TEST(Compare, ErrorsAreRelativeToTheMeasurement) {
  const auto comparison = compare_results(kPredicted, kMeasured, {.makespan = 0.3});
  ASSERT_TRUE(comparison) << comparison.error().message;
  EXPECT_DOUBLE_EQ(figure(*comparison, "makespan_ns").error, -0.25);
  EXPECT_DOUBLE_EQ(figure(*comparison, "idle_over_total").error, -0.05);
  EXPECT_NEAR(figure(*comparison, "samples_per_second").error, 1.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(figure(*comparison, "action_start").error, 30.0 / 2 / 400);
  EXPECT_DOUBLE_EQ(figure(*comparison, "action_duration").error, 80.0 / 380);
}

TEST(Compare, EachRanksBusyTimeIsBesideThePrediction) {
  const auto comparison = compare_results(kPredicted, kMeasured, {});
  ASSERT_TRUE(comparison);
  EXPECT_EQ(comparison->error_ns, -100);
  ASSERT_EQ(comparison->ranks.size(), 1U);
  EXPECT_EQ(comparison->ranks[0].predicted_busy_ns - comparison->ranks[0].measured_busy_ns, -80);
}

TEST(Compare, TheLargestCauseIsInTheOverview) {
  auto comparison = compare_results(kTwoRanksPredicted, kTwoRanksMeasured, {});
  ASSERT_TRUE(comparison) << comparison.error().message;
  comparison->causes = {{.cause = "work", .before_ns = 75, .after_ns = 75},
                        {.cause = "latency", .before_ns = 40, .after_ns = 0},
                        {.cause = "launch", .before_ns = 20, .after_ns = 0}};
  const std::string table = comparisons_to_table({*comparison}, {});
  EXPECT_NE(table.find("latency -40 ns"), std::string::npos) << table;
}

TEST(Compare, EachRanksMemoryIsBesideThePrediction) {
  Result predicted = kTwoRanksPredicted;
  Result measured = kTwoRanksMeasured;
  predicted.ranks[1].memory.peak_bytes = 1024;
  measured.ranks[1].memory.peak_bytes = 2048;
  measured.notes = {"memory: counted by hand", "something else"};
  const auto comparison = compare_results(predicted, measured, {.makespan = 1, .bubble = 1, .memory = 0.4});
  ASSERT_TRUE(comparison);
  EXPECT_EQ(comparison->ranks[1].predicted_peak_bytes, 1024);
  EXPECT_EQ(comparison->ranks[1].measured_peak_bytes, 2048);
  EXPECT_EQ(comparison->notes, std::vector<std::string>{"memory: counted by hand"});
  EXPECT_FALSE(comparison->passed()) << "the fullest rank's peak is 50 % off";
  EXPECT_TRUE(compare_results(predicted, measured, {.makespan = 1, .bubble = 1, .memory = 0.6})->passed());
  const std::string table = comparison_to_table(*comparison);
  EXPECT_NE(table.find("1.00 KiB  2.00 KiB  -50.00 %"), std::string::npos) << table;
}

TEST(Compare, EachKindOfActionHasItsErrors) {
  const auto comparison = compare_results(kPredicted, kMeasured, {});
  ASSERT_TRUE(comparison);
  ASSERT_EQ(comparison->actions.size(), 2U);
  EXPECT_EQ(comparison->actions[1], (ActionErrors{.kind = ActionKind::backward,
                                                  .count = 1,
                                                  .mean_start_ns = 30,
                                                  .worst_start_ns = 30,
                                                  .worst_action = "rank 0: 0B0",
                                                  .predicted_duration_ns = 200,
                                                  .measured_duration_ns = 270}));
}

TEST(Compare, BeyondOneToleranceItFails) {
  const auto passes = [](const CompareTolerances& tolerances) {
    return compare_results(kPredicted, kMeasured, tolerances)->passed();
  };
  EXPECT_TRUE(passes({.makespan = 0.34, .bubble = 0.06}));
  EXPECT_FALSE(passes({.makespan = 0.24, .bubble = 0.06}));
  EXPECT_FALSE(passes({.makespan = 0.34, .bubble = 0.04}));
  EXPECT_FALSE(passes({.makespan = 0.34, .bubble = 0.06, .start = 0.03}));
  EXPECT_FALSE(passes({.makespan = 0.34, .bubble = 0.06, .duration = 0.2}));
  EXPECT_TRUE(passes({.makespan = 0.34, .bubble = 0.06, .start = 0.04, .duration = 0.22}));
}

TEST(Compare, OtherProgramsAndOtherChannelsAreRefused) {
  Result other = kMeasured;
  other.program.digest = "0123456789abcdef";
  EXPECT_NE(compare_results(kPredicted, other, {}).error().message.find("different programs"),
            std::string::npos);
  EXPECT_FALSE(compare_results(kPredicted, other, {}).error().wrong_kind);
  other = kMeasured;
  other.channel = "pair";
  EXPECT_EQ(
      compare_results(kPredicted, other, {}).error().message,
      "the results are of different channel models: directed and pair; predict again with --channel pair");
}

TEST(Compare, OtherRulesOfTransfersAreRefused) {
  Result other = kMeasured;
  other.transfers = {.blocking = Blocking::each, .capacity = 2, .eager_bytes = 4096};
  EXPECT_EQ(compare_results(kPredicted, other, {}).error().message,
            "the results have different rules of transfers: not blocking, unlimited capacity, none eager in "
            "the prediction, blocking, capacity 2, eager below 4096 B in the measurement; predict again with "
            "the blocking, capacity, eager and launch_order that were measured");
  other.transfers = {.launch_order = true};
  EXPECT_THAT(compare_results(kPredicted, other, {}).error().message,
              testing::HasSubstr("none eager, in launch order in the measurement"));
}

TEST(Compare, APredictionThatSharesLinksIsRefusedBesideAMeasurementThatDoesNot) {
  Result predicted = kPredicted;
  Result measured = kMeasured;
  predicted.link_sharing = LinkSharing::counted;
  measured.link_sharing = LinkSharing::left_out;
  const auto refused = compare_results(predicted, measured, {});
  ASSERT_FALSE(refused);
  EXPECT_FALSE(refused.error().wrong_kind);
  EXPECT_EQ(refused.error().message,
            "several messages use a link at once: they share its bandwidth in the prediction, but in the "
            "measurement each has the whole bandwidth; predict without sharing: `penstock simulate --engine "
            "critical-path`");
}

TEST(Compare, WhatBothLeaveOutIsSaid) {
  Result predicted = kPredicted;
  Result measured = kMeasured;
  predicted.link_sharing = measured.link_sharing = LinkSharing::left_out;
  const auto comparison = compare_results(predicted, measured, {});
  ASSERT_TRUE(comparison) << comparison.error().message;
  EXPECT_EQ(comparison->notes,
            std::vector<std::string>{"several messages use a link at once; prediction and measurement both "
                                     "ignore that they share its bandwidth"});
}

TEST(Compare, OnlyAPredictionAndAMeasurementInThisOrderAreCompared) {
  for (const auto& [first, second, fix] :
       {std::tuple{&kMeasured, &kPredicted, "give the prediction first"},
        std::tuple{&kMeasured, &kMeasured, "`penstock simulate --timeline -o FILE.json`"},
        std::tuple{&kPredicted, &kPredicted, "`penstock diff` compares two predictions"}}) {
    const auto comparison = compare_results(*first, *second, {});
    ASSERT_FALSE(comparison);
    EXPECT_TRUE(comparison.error().wrong_kind);
    EXPECT_NE(comparison.error().message.find(fix), std::string::npos) << comparison.error().message;
  }
}

TEST(Compare, WithoutTimelinesOnlyTheFiguresAreCompared) {
  Result bare = kMeasured;
  bare.timeline.spans.clear();
  const auto comparison = compare_results(kPredicted, bare, {});
  ASSERT_TRUE(comparison);
  EXPECT_TRUE(comparison->actions.empty());
  EXPECT_NE(comparison_to_table(*comparison).find("--timeline"), std::string::npos);
}

TEST(Compare, ATimelineWithoutSomeRanksIsRefused) {
  Result predicted = kTwoRanksPredicted;
  Result measured = kTwoRanksMeasured;
  for (Result* result : {&predicted, &measured}) {
    result->program.ranks = result->timeline.rank_count = 1;
    std::erase_if(result->timeline.spans, [](const Span& span) { return span.rank > 0; });
  }
  const auto comparison = compare_results(predicted, measured, {});
  ASSERT_FALSE(comparison);
  EXPECT_EQ(comparison.error().message,
            "the predicted result has a timeline of 1 rank and figures of 2: write it again");
  EXPECT_FALSE(comparison.error().wrong_kind);
}

TEST(Compare, TheTableSaysWhichFigureIsBeyondAndJsonHasTheSameVerdict) {
  const auto comparison = compare_results(kPredicted, kMeasured, {.makespan = 0.24, .bubble = 0.06});
  ASSERT_TRUE(comparison);
  const std::string table = comparison_to_table(*comparison);
  EXPECT_NE(table.find("BEYOND"), std::string::npos) << table;
  EXPECT_NE(table.find("error of the iteration time -100 ns\n"), std::string::npos) << table;
  const auto json = nlohmann::json::parse(comparison_to_json(*comparison));
  EXPECT_EQ(json["passed"], false);
  EXPECT_EQ(json["figures"][0]["name"], "makespan_ns");
  EXPECT_EQ(json["figures"][0]["passed"], false);
  EXPECT_EQ(json["actions"][0]["kind"], "F");
}

// --- several schedules ----------------------------------------------------------------------------

Result timed(ResultKind kind, const std::string& schedule, Ns makespan_ns) {
  Result result = result_of(kind, makespan_ns / 2, 0, makespan_ns - makespan_ns / 2);
  result.program.schedule = schedule;
  return result;
}

/// Returns the ranking for these predicted and measured times of the schedules "a", "b", ...
Ranking ranked(const std::vector<std::pair<Ns, Ns>>& times, double threshold = 0.03) {
  std::vector<Result> results;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    results.push_back(timed(ResultKind::predicted, name, times[i].first));
    results.push_back(timed(ResultKind::measured, name, times[i].second));
  }
  std::vector<ResultPair> pairs;
  for (std::size_t i = 0; i < results.size(); i += 2) pairs.push_back({results[i], results[i + 1]});
  return ranking_of(pairs, threshold);
}

TEST(Ranking, ListsTheFastestMeasuredFirst) {
  const Ranking ranking = ranked({{200, 220}, {100, 110}});
  ASSERT_EQ(ranking.runs.size(), 2U);
  EXPECT_EQ(ranking.runs[0].name, "b, K = 1, M = 1");
  EXPECT_EQ(ranking.counted_pairs, 1);
  EXPECT_TRUE(ranking.passed());
}

TEST(Ranking, AWrongOrderCountsOnlyBeyondTheThreshold) {
  EXPECT_TRUE(ranked({{102, 100}, {100, 102}}).passed()) << "measured 2 % apart";
  const Ranking wrong = ranked({{102, 100}, {100, 104}});
  ASSERT_EQ(wrong.wrong.size(), 1U);
  EXPECT_EQ(wrong.wrong[0].faster, "a, K = 1, M = 1");
  EXPECT_EQ(wrong.wrong[0].slower, "b, K = 1, M = 1");
  EXPECT_NEAR(wrong.wrong[0].measured_gap, 0.04, 1e-12);
  EXPECT_TRUE(ranked({{102, 100}, {100, 104}}, 0.05).passed());
}

TEST(Ranking, EqualPredictionsOfClearlyDifferentTimesAreWrong) {
  EXPECT_FALSE(ranked({{100, 100}, {100, 110}}).passed());
}

TEST(Ranking, RunsOfDifferentLengthAreRankedByTimeASample) {
  Result longer = timed(ResultKind::measured, "a", 300);
  longer.throughput.samples = 4;
  Result longer_predicted = longer;
  const Result shorter = timed(ResultKind::measured, "b", 100);
  const Ranking ranking = ranking_of({{longer_predicted, longer}, {shorter, shorter}}, 0.03);
  EXPECT_EQ(ranking.runs[0].name, "a, K = 1, M = 1") << "75 a sample";
}

TEST(Ranking, TextAndJsonSayWhichPairIsWrong) {
  const Ranking ranking = ranked({{102, 100}, {100, 104}});
  const auto comparison = compare_results(kPredicted, kMeasured, {.makespan = 1, .bubble = 1});
  ASSERT_TRUE(comparison);
  const std::string text = comparisons_to_table({*comparison}, ranking);
  EXPECT_NE(text.find("ranked right: 0 of 1 pair whose measured times differ by more than 3.00 %\n"
                      "WRONG: a, K = 1, M = 1 was measured to be faster than b, K = 1, M = 1 by 4.00 %, and "
                      "predicted to be slower by 1.96 %"),
            std::string::npos)
      << text;
  const auto json = nlohmann::json::parse(comparisons_to_json({*comparison}, ranking));
  EXPECT_EQ(json["passed"], false);
  EXPECT_EQ(json["comparisons"][0]["passed"], true);
  EXPECT_EQ(json["ranking"]["wrong"][0]["faster"], "a, K = 1, M = 1");
}

// Tests the differences between two results, on small pipelines.

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

// With latency 0 the makespan is 9 ns, and with latency 1 it is 11 ns. On rank 1, all actions run one later.
// On rank 0, the backwards run two later.
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

// A measurement has no steady rate. This must not be shown as a rate of 0 or as a change.
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
