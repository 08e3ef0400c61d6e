// Costs out of measured iterations: least squares that find what was put in, files that are wrong, and rows
// of several stages that were not fitted.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/load_fitted.hpp"
#include "sim/measured/fit_iterations.hpp"
#include "sim/measured/least_squares.hpp"
#include "sim/measured/measured_iterations.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

// --- least squares ----------------------------------------------------------------------------------------

/// A dense system as equations.
std::vector<LinearEquation> equations(const std::vector<std::vector<double>>& rows,
                                      const std::vector<double>& values) {
  std::vector<LinearEquation> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    LinearEquation equation{.terms = {}, .value = values[i]};
    for (std::size_t j = 0; j < rows[i].size(); ++j) equation.terms.emplace_back(j, rows[i][j]);
    all.push_back(std::move(equation));
  }
  return all;
}

double squares(const std::vector<std::vector<double>>& rows, const std::vector<double>& values,
               const std::vector<double>& at) {
  double sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double residual = -values[i];
    for (std::size_t j = 0; j < at.size(); ++j) residual += rows[i][j] * at[j];
    sum += residual * residual;
  }
  return sum;
}

TEST(LeastSquares, SolvesWhatHasASolution) {
  const auto x = non_negative_least_squares(equations({{1, 2}, {3, 1}, {1, 1}}, {5, 5, 3}), 2);
  EXPECT_NEAR(x[0], 1, 1e-12);
  EXPECT_NEAR(x[1], 2, 1e-12);
}

// Free, y = 1 - x through (1, 2), (2, 1.5), (3, 0.4) would need a slope below 0.
TEST(LeastSquares, WhatWouldBeBelowZeroIsZeroAndTheOthersMakeTheBestOfIt) {
  const auto x = non_negative_least_squares(equations({{1, 1}, {1, 2}, {1, 3}}, {2, 1.5, 0.4}), 2);
  EXPECT_NEAR(x[0], 1.3, 1e-12);
  EXPECT_EQ(x[1], 0);
}

TEST(LeastSquares, ColumnsOfNothingAndNoEquationsAreZero) {
  EXPECT_EQ(non_negative_least_squares(equations({{0, 2}}, {4}), 2), (std::vector<double>{0, 2}));
  EXPECT_EQ(non_negative_least_squares({}, 2), (std::vector<double>{0, 0}));
  EXPECT_EQ(identifiable_unknowns(equations({{1, 2}, {2, 4}}, {1, 2}), 2), 1U);
}

// Karush, Kuhn and Tucker: at the least no unknown can be moved, within the bounds, to a smaller residual.
TEST(LeastSquares, NoStepFromTheAnswerIsBetter) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::vector<double>> rows(8, std::vector<double>(5));
    std::vector<double> values(8);
    for (auto& row : rows)
      for (double& entry : row) entry = normal(random);
    for (double& value : values) value = normal(random);
    const auto x = non_negative_least_squares(equations(rows, values), 5);
    const double least = squares(rows, values, x);
    for (std::size_t j = 0; j < x.size(); ++j) {
      EXPECT_GE(x[j], 0);
      for (const double step : {-1e-3, 1e-3}) {
        auto moved = x;
        moved[j] += step;
        if (moved[j] < 0) continue;
        EXPECT_GE(squares(rows, values, moved), least) << "trial " << trial;
      }
    }
  }
}

// --- fitting ----------------------------------------------------------------------------------------------

std::string iterations_file() { return source_path("scenarios/library/runs/vtrain_iterations.csv"); }
const Iterations& library_iterations() {
  static const Iterations kRows = read_iterations(iterations_file()).value();
  return kRows;
}

IterationCosts hidden_costs() {
  return {.source = "made up",
          .vocabulary = 1000,
          .layers = {{{.hidden = 64, .heads = 4, .sequence = 32, .tensor = 1, .micro_batch_size = 1},
                      {.layer_ns = 2'000'000, .ends_ns = 1'000'000}},
                     {{.hidden = 64, .heads = 4, .sequence = 32, .tensor = 1, .micro_batch_size = 2},
                      {.layer_ns = 3'000'000, .ends_ns = 1'500'000}},
                     // Without another degree, parameters would grow as layers do.
                     {{.hidden = 64, .heads = 4, .sequence = 32, .tensor = 4, .micro_batch_size = 1},
                      {.layer_ns = 800'000, .ends_ns = 300'000}}},
          .step = {.constant_ns = 700'000,
                   .layer_ns = 50'000,
                   .million_parameters_ns = 400'000,
                   .million_reduced_ns = {{64, 900'000}}}};
}

/// Iterations whose seconds are what those costs say by hand.
std::vector<Iteration> made_by(const IterationCosts& costs) {
  std::vector<Iteration> rows;
  for (const auto& [kind, times] : costs.layers) {
    for (const std::int64_t layers : {2, 4, 8}) {
      for (const std::int64_t microbatches : {1, 4}) {
        for (const std::int32_t data : {1, 2, 8}) {
          const double n =
              (64.0 * (1000 + 32) + static_cast<double>(layers) * (12 * 64 * 64 + 13 * 64)) / kind.tensor;
          const double ring = 2.0 * (data - 1) / data;
          const double ns =
              static_cast<double>(microbatches) *
                  (static_cast<double>(layers * times.layer_ns) + static_cast<double>(times.ends_ns)) +
              700e3 + static_cast<double>(layers) * 50e3 + n / 1e6 * (400e3 + ring * 900e3);
          rows.push_back({.kind = kind,
                          .layers = layers,
                          .data = data,
                          .microbatches = microbatches,
                          .seconds = ns * 1e-9,
                          .cells = {}});
        }
      }
    }
  }
  return rows;
}

TEST(FitIterations, FindsCostsAgain) {
  IterationCosts found = costs_of_iterations(made_by(hidden_costs()), 1000);
  found.source = "made up";
  const IterationCosts hidden = hidden_costs();
  for (const auto& [kind, times] : hidden.layers) {
    EXPECT_NEAR(static_cast<double>(found.layers.at(kind).layer_ns), static_cast<double>(times.layer_ns), 2);
    EXPECT_NEAR(static_cast<double>(found.layers.at(kind).ends_ns), static_cast<double>(times.ends_ns), 2);
  }
  EXPECT_NEAR(static_cast<double>(found.step.constant_ns), 700e3, 20);
  EXPECT_NEAR(static_cast<double>(found.step.layer_ns), 50e3, 20);
  EXPECT_NEAR(static_cast<double>(found.step.million_parameters_ns), 400e3, 200);
  EXPECT_NEAR(static_cast<double>(found.step.million_reduced_ns.at(64)), 900e3, 20);
}

// Costs are fitted on one stage alone; what a pipeline adds is the engine's.
TEST(FitIterations, RowsOfSeveralStagesAreWithinOneAndAHalfPercent) {
  const FitReport report = fit_iterations(library_iterations(), {.vocabulary = 51'200}).value();
  EXPECT_EQ(report.runs.rows.size(), 675U);
  EXPECT_EQ(report.constants, 69U);
  ASSERT_TRUE(report.held_out);
  EXPECT_EQ(report.held_out->rows, 330U);
  EXPECT_LT(report.held_out->mape, 0.0108);
  EXPECT_LT(report.left_out->mape, 0.005);
  EXPECT_TRUE(report.unpriced.empty());
}

// NVLink as an A100 has it, 300 GB/s of which three quarters are reached.
TEST(FitIterations, MessagesOverNvlinkBringFourStagesWithinOneAndAHalfPercent) {
  const FitReport report =
      fit_iterations(library_iterations(), {.vocabulary = 51'200, .link_bytes_per_second = 225e9}).value();
  EXPECT_LT(report.held_out->mape, 0.0105);
  for (const RunGroup& group : report.runs.groups) EXPECT_LT(group.mape, 0.015) << group.name;
}

// The engine's prediction of one stage is the sum that was fitted, and that of 1F1B over equal stages (M + K
// - 1) microbatches of a stage.
TEST(FitIterations, PredictionsAreTheEngines) {
  IterationCosts costs = hidden_costs();
  for (auto& [kind, times] : costs.layers) times.ends_ns = 0;
  costs.step = {.million_reduced_ns = {{64, 0}}};
  Iterations rows{.file = "made up", .header = {}, .rows = {}};
  for (const std::int32_t stages : {1, 2, 4}) {
    rows.rows.push_back({.kind = costs.layers.begin()->first,
                         .layers = 8,
                         .stages = stages,
                         .microbatches = 6,
                         .seconds = (6.0 + stages - 1) * 8 / stages * 0.002,
                         .cells = {}});
  }
  const auto runs = runs_with(rows, std::make_shared<const IterationCosts>(costs));
  const RunsReport report = predict_iterations(runs, {true, false, false}).value();
  for (const PredictedRun& row : report.rows) EXPECT_NEAR(row.error, 0, 1e-9);
}

TEST(FitIterations, RowsOfNoOtherStageCannotBeFitted) {
  Iterations rows{.file = "a.csv", .header = {}, .rows = {made_by(hidden_costs()).front()}};
  rows.rows.front().stages = 2;
  EXPECT_EQ(fit_iterations(rows, {.vocabulary = 1000}).error(),
            "a.csv: expected rows of one stage, on which costs are fitted, got none");
}

TEST(FitIterations, ARowWhoseLayersNobodyMeasuredIsNamedAndNotGuessed) {
  Iterations rows{.file = "a.csv", .header = {}, .rows = made_by(hidden_costs())};
  Iteration other = rows.rows.front();
  other.kind.hidden = 128;
  other.stages = 2;
  other.line = 99;
  rows.rows.push_back(other);
  EXPECT_EQ(fit_iterations(rows, {.vocabulary = 1000})->unpriced, std::vector<std::size_t>{99});
}

// --- files ------------------------------------------------------------------------------------------------

/// What is wrong with a file, without its name.
std::string fit_refusal(const std::string& text) {
  const ScratchFolder folder;
  const std::string file = folder.write("rows.csv", text);
  const auto read = read_iterations(file);
  return read ? "no error" : read.error().substr(file.size() + 1);
}

constexpr const char* kHeader =
    "devices,global_batch_size,micro_batch_size,hidden,heads,layers,sequence,tensor,data,stages,step_"
    "seconds\n";

TEST(Iterations, WrongRowsAreNamedByLineAndColumn) {
  const auto row = [](const std::string& cells) { return fit_refusal(kHeader + cells); };
  EXPECT_EQ(row("2,16,8,64,4,8,32,1,1,2,0.5\n"), "no error");
  EXPECT_EQ(row("2,16,8,64,4,8,32,1,1,2,0\n"),
            "2: step_seconds: expected a number above 0 and up to 1000000, got \"0\"");
  // In nanoseconds it would fit no integer.
  EXPECT_EQ(row("2,16,8,64,4,8,32,1,1,2,1e10\n"),
            "2: step_seconds: expected a number above 0 and up to 1000000, got \"1e10\"");
  EXPECT_EQ(row("2,16,8,x,4,8,32,1,1,2,0.5\n"),
            "2: hidden: expected a whole number from 1 to 1048576, got \"x\"");
  EXPECT_EQ(row("2,15,8,64,4,8,32,1,1,2,0.5\n"),
            "2: global_batch_size: expected a multiple of micro_batch_size x data = 8, got 15");
  EXPECT_EQ(row("2,16,8,64,4,7,32,1,1,2,0.5\n"), "2: layers: expected a multiple of stages = 2, got 7");
  EXPECT_EQ(row("3,16,8,64,4,8,32,1,1,2,0.5\n"), "2: devices: expected tensor x data x stages = 2, got 3");
  EXPECT_EQ(row("2,16,8\n"), "2: expected 11 cells as in the first row, got 3");
  EXPECT_EQ(fit_refusal("a,b\n1,2\n"),
            "1: expected a column \"global_batch_size\" (or \"global batch\"), got a, b");
  EXPECT_EQ(fit_refusal(kHeader), " expected names of columns and rows below them, got 1 rows");
}

// vTrain's names, milliseconds, and a header that begins with '#'.
TEST(Iterations, NamesOfVTrainAreRead) {
  const Iteration& first = library_iterations().rows.front();
  EXPECT_EQ(first.kind,
            (FittedLayer{.hidden = 1024, .heads = 16, .sequence = 1024, .tensor = 1, .micro_batch_size = 8}));
  EXPECT_EQ(first.stages, 2);
  EXPECT_EQ(first.microbatches, 2);
  EXPECT_NEAR(first.seconds, 0.372160408, 1e-12);
}

TEST(IterationCosts, WhatIsWrittenIsWhatIsRead) {
  const ScratchFolder folder;
  const std::string file = folder.write("costs.json", iteration_costs_to_json(hidden_costs()));
  EXPECT_EQ(load_iteration_costs(file, file).value(), hidden_costs());
}

// simulate of a scenario that names the file says what the fit said.
TEST(IterationCosts, AScenarioTakesThem) {
  const ScratchFolder folder;
  const std::string file = folder.write("costs.json", iteration_costs_to_json(hidden_costs()));
  const auto scenario = parse_scenario("model: {fitted: " + file +
                                           ", hidden: 64, heads: 4, layers: 8, sequence: 32}\n"
                                           "parallel: {data: 2}\n"
                                           "schedule: {name: 1f1b, stages: 2}\n"
                                           "training: {micro_batch_size: 2, global_batch_size: 16}\n",
                                       "a.yaml", "");
  ASSERT_TRUE(scenario) << scenario.error();
  const Result result = simulate_scenario(*scenario, {}).value();
  // 4 microbatches: the last stage has 4 layers and the head, the first fills and drains around it.
  const Ns stage = Ns{4} * 3'000'000;
  const Ns last = stage + 1'500'000;
  const ModelPartSize first_part{.layers = 4, .has_embedding = true};
  const ModelPartSize last_part{.layers = 4, .has_head = true};
  const FittedLayer kind{.hidden = 64, .heads = 4, .sequence = 32, .tensor = 1, .micro_batch_size = 2};
  const Ns step = std::max(step_ns(hidden_costs(), kind, first_part, 2) + stage - stage / 3,
                           step_ns(hidden_costs(), kind, last_part, 2));
  EXPECT_EQ(result.makespan_ns, stage / 3 + 4 * last + step);
  EXPECT_NEAR(result.throughput.samples, 16, 1e-9);
}

TEST(IterationCosts, WhatIsMissingIsNamed) {
  const auto refused = [](const std::string& model) {
    const auto scenario =
        parse_scenario("model: " + model, "a.yaml", source_path("tests/scenarios/must_fail"));
    return scenario ? "no error" : scenario.error();
  };
  EXPECT_EQ(refused("{fitted: none.json, hidden: 64, heads: 4, layers: 8, sequence: 32}"),
            "a.yaml:1:17: model.fitted: none.json: the file does not exist");
  EXPECT_TRUE(refused("{fitted: none.json, hidden: 64, heads: 4, layers: 8}")
                  .starts_with("a.yaml:1:8: model.sequence: expected a whole number, got nothing\n"));
}

}  // namespace
}  // namespace penstock
