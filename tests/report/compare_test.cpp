// Predictions held against measurements that differ in known ways.

#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/compare.hpp"
#include "report/metrics.hpp"
#include "report/result.hpp"
#include "report/timeline.hpp"
#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/program.hpp"

namespace penstock {
namespace {

/// One rank, F then B, which start `pause` apart; durations as given.
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

const Result kPredicted = result_of(ResultKind::predicted, 100, 0, 200);
const Result kMeasured = result_of(ResultKind::measured, 110, 20, 270);

const ComparedFigure& figure(const Comparison& comparison, const std::string& name) {
  for (const ComparedFigure& f : comparison.figures) {
    if (f.name == name) return f;
  }
  throw std::runtime_error("no figure " + name);
}

TEST(Compare, ErrorsAreRelativeToTheMeasurement) {
  const auto comparison = compare_results(kPredicted, kMeasured, {.makespan = 0.3});
  ASSERT_TRUE(comparison) << comparison.error();
  EXPECT_DOUBLE_EQ(figure(*comparison, "makespan_ns").error, -0.25);
  EXPECT_DOUBLE_EQ(figure(*comparison, "idle_over_total").error, -0.05);
  EXPECT_NEAR(figure(*comparison, "samples_per_second").error, 1.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(figure(*comparison, "action_start").error, 30.0 / 2 / 400);
  EXPECT_DOUBLE_EQ(figure(*comparison, "action_duration").error, 80.0 / 380);
}

TEST(Compare, PartsAddUpToTheErrorOfTheMakespan) {
  const auto comparison = compare_results(kPredicted, kMeasured, {});
  ASSERT_TRUE(comparison);
  EXPECT_EQ(comparison->parts,
            (ErrorParts{.makespan_ns = -100, .compute_ns = -80, .transfer_ns = 0, .waiting_ns = -20}));
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
  EXPECT_NE(compare_results(kPredicted, other, {}).error().find("different programs"), std::string::npos);
  other = kMeasured;
  other.channel = "pair";
  EXPECT_EQ(
      compare_results(kPredicted, other, {}).error(),
      "the results are of different channel models: directed and pair; predict again with --channel pair");
  EXPECT_NE(compare_results(kMeasured, kPredicted, {}).error().find("give the prediction first"),
            std::string::npos);
}

TEST(Compare, WithoutTimelinesOnlyTheFiguresAreCompared) {
  Result bare = kMeasured;
  bare.timeline.spans.clear();
  const auto comparison = compare_results(kPredicted, bare, {});
  ASSERT_TRUE(comparison);
  EXPECT_TRUE(comparison->actions.empty());
  EXPECT_NE(comparison_to_table(*comparison).find("--timeline"), std::string::npos);
}

TEST(Compare, TheTableSaysWhichFigureIsBeyondAndJsonHasTheSameVerdict) {
  const auto comparison = compare_results(kPredicted, kMeasured, {.makespan = 0.24, .bubble = 0.06});
  ASSERT_TRUE(comparison);
  const std::string table = comparison_to_table(*comparison);
  EXPECT_NE(table.find("BEYOND"), std::string::npos) << table;
  EXPECT_NE(table.find("error of the iteration time -100 ns: compute -80 ns"), std::string::npos) << table;
  const auto json = nlohmann::json::parse(comparison_to_json(*comparison));
  EXPECT_EQ(json["passed"], false);
  EXPECT_EQ(json["figures"][0]["name"], "makespan_ns");
  EXPECT_EQ(json["figures"][0]["passed"], false);
  EXPECT_EQ(json["actions"][0]["kind"], "F");
}

}  // namespace
}  // namespace penstock
