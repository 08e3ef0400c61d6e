// Tests the figures that say how accurate predictions of measured runs are. These are the parts of a step
// with the factors that explain an error, intervals, errors of runs that were not used for a fit, and the
// order of pairs.

#include "sim/hold/run_accuracy.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/read/document.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

const MeasuredRuns& runs_of_the_library() {
  static const MeasuredRuns kRuns = library_runs();
  return kRuns;
}

MeasuredRuns library_runs_of(const std::string& part_of_id) {
  MeasuredRuns part{.header = runs_of_the_library().header, .runs = {}};
  for (const MeasuredRun& run : runs_of_the_library().runs)
    if (run.id.find(part_of_id) != std::string::npos) part.runs.push_back(run);
  return part;
}

/// Replaces the measured steps by predictions with these constants.
void pretend(MeasuredRuns& runs, const DeviceConstants& constants) {
  for (MeasuredRun& run : runs.runs)
    run.step_seconds = RunPrices::make(run.scenario).value().step_seconds(constants);
}

double seconds_of_part(const StepSeconds& parts, StepPart part) {
  return parts[static_cast<std::size_t>(part)];
}
std::optional<double> factor_of(const StepFactors& factors, StepPart part) {
  return factors[static_cast<std::size_t>(part)];
}

// --- parts ------------------------------------------------------------------------------------------------

TEST(StepParts, AddUpToTheStepOfEveryRun) {
  for (const MeasuredRun& run : runs_of_the_library().runs) {
    SCOPED_TRACE(run.id);
    const RunPrices prices = RunPrices::make(run.scenario).value();
    const DeviceConstants own = own_constants(run.scenario);
    const StepSeconds parts = step_parts(prices, own);
    const double step = prices.step_seconds(own);
    EXPECT_NEAR(std::accumulate(parts.begin(), parts.end(), 0.0), step, 1e-9 * step);
    for (const double part : parts) EXPECT_GT(part, -1e-4 * step);
    EXPECT_GT(seconds_of_part(parts, StepPart::products), 0.2 * step);
    if (run.scenario.shape.stages > 1) {
      EXPECT_GT(seconds_of_part(parts, StepPart::bubble), 0);
    } else {
      EXPECT_LT(seconds_of_part(parts, StepPart::bubble), 1e-4 * step) << "one stage waits for no other";
    }
  }
}

TEST(StepParts, AFactorOfOneExplainsAPredictionWithoutError) {
  for (const MeasuredRun& run : library_runs_of("bridge").runs) {
    const RunPrices prices = RunPrices::make(run.scenario).value();
    const DeviceConstants own = own_constants(run.scenario);
    const StepSeconds parts = step_parts(prices, own);
    for (const auto& factor : explaining_factors(prices, own, parts, prices.step_seconds(own)))
      EXPECT_NEAR(factor.value_or(1), 1, 1e-3) << run.id;
  }
}

// If a machine has slower products, the factor is that of products. It also applies to the bubble.
TEST(StepParts, SlowerProductsAreFoundAsAFactorOnProducts) {
  for (const MeasuredRun& run : library_runs_of("mlperf:v5.0").runs) {
    SCOPED_TRACE(run.id);
    const RunPrices prices = RunPrices::make(run.scenario).value();
    DeviceConstants own = own_constants(run.scenario);
    const StepSeconds parts = step_parts(prices, own);
    DeviceConstants slower = own;
    slower.sustained *= 1.1;
    const StepFactors factors = explaining_factors(prices, own, parts, prices.step_seconds(slower));
    EXPECT_NEAR(factor_of(factors, StepPart::products).value(), 1.1, 0.01);
    EXPECT_GT(factor_of(factors, StepPart::attention).value(), 1.1);
  }
}

TEST(StepParts, AStepThatNoFactorReachesHasNone) {
  const MeasuredRun run = library_runs_of("simumax:llama").runs.front();
  const RunPrices prices = RunPrices::make(run.scenario).value();
  const DeviceConstants own = own_constants(run.scenario);
  const StepSeconds parts = step_parts(prices, own);
  for (const auto& factor : explaining_factors(prices, own, parts, 0.01 * prices.step_seconds(own)))
    EXPECT_FALSE(factor);
  EXPECT_FALSE(
      factor_of(explaining_factors(prices, own, parts, 20 * prices.step_seconds(own)), StepPart::optimizer));
}

// --- intervals --------------------------------------------------------------------------------------------

constexpr const char* kPairHeader =
    "id,source,release,model,device,devices,micro_batch_size,microbatches,sequence,precision,recompute,"
    "tensor,stages,"
    "schedule,step_seconds\n";

MeasuredRuns runs_of(const std::string& rows) {
  return parse_measured_runs(kPairHeader + rows, "short.csv",
                             [](const std::string& model) {
                               return read_text_file(
                                   source_path("scenarios/library/models/" + model + ".json"), model);
                             })
      .value();
}

/// Returns a report with these predictions. It does not use the prices of the runs.
RunsReport report_of(const MeasuredRuns& runs, const std::vector<double>& predicted) {
  RunsReport report;
  for (std::size_t i = 0; i < runs.runs.size(); ++i) {
    const double measured = runs.runs[i].step_seconds;
    report.rows.push_back({.id = runs.runs[i].id,
                           .measured_seconds = measured,
                           .predicted_seconds = predicted[i],
                           .error = predicted[i] / measured - 1});
  }
  return report;
}

const char* const kFourRows =
    "a,s,,llama-3.1-8b,h100,8,1,4,4096,bf16,none,1,1,1f1b,1\n"
    "b,s,,llama-3.1-8b,h100,8,1,4,4096,bf16,none,2,1,1f1b,1\n"
    "c,s,,llama-3.1-8b,h100,8,1,4,4096,bf16,none,4,1,1f1b,1\n"
    "d,s,,llama-3.1-8b,h100,8,1,4,4096,bf16,none,8,1,1f1b,1\n";

TEST(StepIntervals, EqualErrorsOfTheOthersCorrectAPrediction) {
  const MeasuredRuns runs = runs_of(kFourRows);
  const std::array errors = {0.0, 0.1, 0.1, 0.1};
  const auto intervals = step_intervals(runs, report_of(runs, {2, 2, 2, 2}), errors);
  ASSERT_TRUE(intervals[0]);
  EXPECT_EQ(intervals[0]->rows, 3U);
  EXPECT_NEAR(intervals[0]->low, 2 * std::exp(-0.1), 1e-12);
  EXPECT_NEAR(intervals[0]->high, 2 * std::exp(-0.1), 1e-12);
  EXPECT_LT(intervals[1]->low, 2 * std::exp(-0.1)) << "its own error is not among the others";
}

// The errors of the three other rows are -0.1, 0 and 0.1. Their standard deviation is 0.1, and Student's
// quantile for 2 degrees of freedom is 2.92.
TEST(StepIntervals, WidenWithTheScatterOfTheOthers) {
  const MeasuredRuns runs = runs_of(kFourRows);
  const std::array errors = {0.0, -0.1, 0.0, 0.1};
  const auto intervals = step_intervals(runs, report_of(runs, {1, 1, 1, 1}), errors);
  EXPECT_NEAR(std::log(intervals[0]->high), 2.91999 * 0.1 * std::sqrt(4.0 / 3), 1e-5);
  EXPECT_NEAR(intervals[0]->low * intervals[0]->high, 1, 1e-12);
}

TEST(StepIntervals, TooFewRowsOfAClassGiveNone) {
  const MeasuredRuns runs = runs_of(
      "a,s,,llama-3.1-8b,h100,8,1,4,4096,bf16,none,1,1,1f1b,1\n"
      "b,s,,llama-3.1-8b,h100,8,1,4,4096,bf16,none,2,1,1f1b,1\n"
      "c,s,,llama-3.1-8b,h100,8,1,4,4096,bf16,none,1,2,1f1b,1\n");
  const std::array errors = {0.0, 0.0, 0.0};
  for (const auto& interval : step_intervals(runs, report_of(runs, {1, 1, 1}), errors))
    EXPECT_FALSE(interval);
}

TEST(ExplainRuns, IntervalsOfFittedRunsFollowFromFitsWithoutThem) {
  const MeasuredRuns runs = library_runs_of("bridge:26.04");
  const PricedRuns priced = price_runs(runs).value();
  const RunsReport fitted = predict_runs(priced, &priced);
  const std::vector<ExplainedRun> explained = explain_runs(priced, fitted);
  std::vector<double> errors;
  for (const LeftOutError& one : left_out_errors(priced)) errors.push_back(one.log_error);
  const auto intervals = step_intervals(runs, fitted, errors);
  ASSERT_EQ(explained.size(), runs.runs.size());
  for (std::size_t i = 0; i < explained.size(); ++i) {
    ASSERT_TRUE(explained[i].interval);
    EXPECT_EQ(explained[i].interval->low, intervals[i]->low);
  }
}

// --- fits -------------------------------------------------------------------------------------------------

TEST(LeftOutErrors, VanishWhereTheOthersTellTheConstants) {
  MeasuredRuns runs = library_runs_of("simumax:llama");
  pretend(runs, {.sustained = 1.22, .collectives = 1.8, .step_fraction = 0.3});
  const PricedRuns priced = price_runs(runs).value();
  for (const LeftOutError& one : left_out_errors(priced)) {
    EXPECT_NEAR(one.log_error, 0, 5e-3);
    EXPECT_EQ(one.rows, runs.runs.size() - 1);
  }
}

TEST(LeftOutErrors, ALoneRunHasTheDevicesOwnConstants) {
  MeasuredRuns runs = library_runs_of("v5.0:eos");
  runs.runs.resize(1);
  runs.runs.push_back(runs.runs.front());
  runs.runs.back().release = "another";
  const PricedRuns priced = price_runs(runs).value();
  const RunsReport own = predict_runs(priced, nullptr);
  const auto errors = left_out_errors(priced);
  EXPECT_EQ(errors[0].rows, 0U) << "a repeat of the run tells nothing new";
  EXPECT_NEAR(errors[0].log_error, std::log1p(own.rows[0].error), 1e-12);
}

TEST(ConstantIntervals, HoldTheConstantsAndShrinkWithTheScatter) {
  MeasuredRuns runs = library_runs_of("simumax:llama");
  pretend(runs, {.sustained = 1.22, .collectives = 1.8, .step_fraction = 0.3});
  const PricedRuns priced = price_runs(runs).value();
  const auto intervals_of = [&](double scatter) {
    return predict_runs(priced, &priced, scatter).constants.front().intervals;
  };
  const auto wide = intervals_of(0.04);
  const auto narrow = intervals_of(0.01);
  ASSERT_EQ(wide.size(), 2U);
  EXPECT_EQ(wide[0].name, "sustained");
  EXPECT_EQ(wide[1].name, "collectives");
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_LT(wide[i].low, narrow[i].low);
    EXPECT_LE(narrow[i].high, wide[i].high);
    EXPECT_LT(narrow[i].low, narrow[i].value);
    EXPECT_LT(narrow[i].value, narrow[i].high);
  }
  EXPECT_LT(narrow[0].high - narrow[0].low, 0.1);
  EXPECT_TRUE(predict_runs(priced, &priced).constants.front().intervals.empty()) << "nobody asked";
}

// --- pairs ------------------------------------------------------------------------------------------------

TEST(RunPairs, CountTheOrderOfConfigurationsOfOneJob) {
  const MeasuredRuns runs = runs_of(
      "a,s,1,llama-3.1-8b,h100,8,1,4,4096,bf16,none,1,1,1f1b,1.00\n"
      "again,s,2,llama-3.1-8b,h100,8,1,4,4096,bf16,none,1,1,1f1b,1.50\n"  // a repeat of a
      "b,s,1,llama-3.1-8b,h100,8,1,8,4096,bf16,none,2,1,1f1b,1.10\n"
      "c,s,1,llama-3.1-8b,h100,8,1,16,4096,bf16,none,2,2,1f1b,1.02\n"
      "d,s,1,llama-3.1-8b,h100,8,1,8,4096,bf16,none,1,1,1f1b,2.00\n"    // twice the batch
      "e,t,1,llama-3.1-8b,h100,8,1,8,4096,bf16,none,2,1,1f1b,3.00\n");  // another source
  const RunsReport report = report_of(runs, {1, 1, 1.05, 1.2, 2, 3});
  const std::vector<RunPair> pairs = run_pairs(runs, report);
  // The runs a and c differ only by 2 %. The run `again` is the slowest, but it is predicted to be the
  // fastest.
  std::vector<std::string> names;
  for (const RunPair& pair : pairs)
    names.push_back(runs.runs[pair.faster].id + "<" + runs.runs[pair.slower].id +
                    (pair.is_right() ? "" : "!"));
  EXPECT_EQ(names, (std::vector<std::string>{"a<b", "b<again!", "c<again!", "c<b!"}));
  EXPECT_NEAR(pairs[0].measured, 0.1, 1e-12);
  EXPECT_NEAR(pairs[0].predicted, 0.05, 1e-12);
  const auto classes = pairs_by_class(runs, pairs);
  ASSERT_EQ(classes.size(), 2U);
  EXPECT_EQ(classes[0].name, "dense, no pipeline, one NVLink domain");
  EXPECT_EQ(classes[0].pairs, 2U);
  EXPECT_EQ(classes[0].right, 1U);
  EXPECT_EQ(classes[1].name, "dense, no pipeline, one NVLink domain / dense, pipeline");
  EXPECT_EQ(pairs_by_source(runs, pairs).front().pairs, 4U);
}

TEST(RunPairs, EqualPredictionsAreNotInTheRightOrder) {
  const MeasuredRuns runs = runs_of(
      "a,s,,llama-3.1-8b,h100,8,1,4,4096,bf16,none,1,1,1f1b,1.00\n"
      "b,s,,llama-3.1-8b,h100,8,1,8,4096,bf16,none,2,1,1f1b,1.10\n");
  const auto pairs = run_pairs(runs, report_of(runs, {1, 1}));
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_FALSE(pairs.front().is_right());
}

}  // namespace
}  // namespace penstock
