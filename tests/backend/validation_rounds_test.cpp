// Tests the validation of predictions on a machine with known times: a simulator that adds an overhead to
// every action and a latency to every message, which the scenario does not state.

#include "backend/calibration/validation_rounds.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/cost_table.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

std::string scenario_text(const std::string& schedule, int microbatches) {
  return "model: {stages: {forward: [2 ms, 3 ms], backward: [3 ms, 5 ms], step: 1 ms, activation: 1 MB}}\n"
         "cluster: {preset: uniform, bandwidth: 1 GB/s, latency: 100 us}\n"
         "schedule: {name: " +
         schedule + ", stages: 2, microbatches: " + std::to_string(microbatches) + "}\n";
}

Scenario scenario_of(const std::string& schedule, int microbatches) {
  auto scenario = parse_scenario(scenario_text(schedule, microbatches), "s.yaml", ".");
  if (!scenario) throw std::runtime_error(scenario.error());
  return *std::move(scenario);
}

ValidationCase case_of(const std::string& schedule, int microbatches) {
  auto experiment = prepare(scenario_of(schedule, microbatches));
  if (!experiment) throw std::runtime_error(experiment.error().message);
  return {.name = schedule + ", M " + std::to_string(microbatches), .experiment = *std::move(experiment)};
}

std::vector<ValidationCase> all_cases() {
  return {case_of("1f1b", 4), case_of("gpipe", 8), case_of("zb-h1", 8), case_of("naive", 1)};
}

tl::expected<Result, UserError> predicted(const Experiment& experiment) {
  auto result = simulate(experiment, {.memory = {}, .steady = SteadyState::skip});
  if (!result) throw std::runtime_error(result.error().message);
  return *std::move(result);
}

/// Runs an experiment on the machine. Each action takes `overhead_ns` longer than the scenario says, and each
/// message 300 us.
tl::expected<Result, UserError> run(Experiment experiment, Ns overhead_ns) {
  for (StageCost& cost : experiment.costs.stages) {
    for (Ns* duration :
         {&cost.forward_ns, &cost.backward_ns, &cost.backward_input_ns, &cost.backward_weight_ns})
      *duration += overhead_ns;
  }
  experiment.cluster =
      uniform_cluster({.devices = 2, .bytes_per_second = 1e9, .latency_ns = 300'000}).value();
  return predicted(experiment);
}

bool is_source(const Experiment& experiment) {
  return experiment.program.schedule.starts_with("calibration");
}

TEST(Validation, FindsTheCostsOfTheMachineAndPredictsEveryScheduleExactly) {
  const auto validation = validate_predictions(
      scenario_of("1f1b", 4), all_cases(), {.rounds = 3},
      [](const Experiment& experiment) { return run(experiment, 500'000); }, predicted);
  ASSERT_TRUE(validation);
  ASSERT_EQ(validation->cases.size(), 4U);
  for (const ValidatedCase& one : validation->cases) {
    EXPECT_EQ(one.predicted_ns, one.measured_ns) << one.name;
    EXPECT_EQ(one.error.mean, 0) << one.name;
    EXPECT_EQ(one.replay.mean, 0) << one.name;
    EXPECT_EQ(one.noise_floor, 0) << one.name;
    EXPECT_EQ(one.verdict, ValidationVerdict::holds) << one.name;
  }
  // naive, M 1: both F and B with 0.5 ms more each, two messages of 1.3 ms, STEP of 1 ms.
  EXPECT_EQ(validation->cases[3].measured_ns, 2.5e6 + 1.3e6 + 3.5e6 + 5.5e6 + 1.3e6 + 3.5e6 + 1e6);
  EXPECT_EQ(validation->verdict(), ValidationVerdict::holds);
}

// The source runs on a machine whose actions are 1 ms shorter, so its costs are wrong for the cases.
TEST(Validation, MissesWhereTheMeasuredCostsAreNotThoseOfTheRun) {
  const auto validation = validate_predictions(
      scenario_of("1f1b", 4), all_cases(), {.rounds = 3},
      [](const Experiment& experiment) { return run(experiment, is_source(experiment) ? 0 : 1'000'000); },
      predicted);
  ASSERT_TRUE(validation);
  for (const ValidatedCase& one : validation->cases) {
    EXPECT_LT(one.error.mean, -0.1) << one.name;
    EXPECT_EQ(one.replay.mean, 0) << one.name;
    EXPECT_EQ(one.verdict, ValidationVerdict::misses) << one.name;
  }
  EXPECT_EQ(validation->verdict(), ValidationVerdict::misses);
}

// Runs take alternately 0 and 20 % longer, whatever the source says: the mean error is near 10 %, but four
// rounds leave an interval wider than the tolerance.
TEST(Validation, SaysThatANoisyMachineCannotTell) {
  int number = 0;
  const auto validation = validate_predictions(
      scenario_of("1f1b", 4), {case_of("1f1b", 4)}, {.rounds = 4, .tolerance = 0.1},
      [&](const Experiment& experiment) {
        auto result = run(experiment, 0);
        if (!is_source(experiment) && number++ % 2 == 1) result->makespan_ns += result->makespan_ns / 5;
        return result;
      },
      predicted);
  ASSERT_TRUE(validation);
  const ValidatedCase& one = validation->cases.front();
  EXPECT_GT(one.noise_floor, 0.15);
  EXPECT_GT(one.error.half_width, 0.1);
  EXPECT_EQ(one.verdict, ValidationVerdict::unclear);
  EXPECT_EQ(validation->verdict(), ValidationVerdict::unclear);
}

TEST(Validation, TheOrderOfEachRoundIsDrawnFromTheSeed) {
  const auto order = [](std::uint64_t seed) {
    std::vector<std::string> names;
    const auto validation = validate_predictions(
        scenario_of("1f1b", 4), {case_of("1f1b", 4), case_of("gpipe", 4)}, {.rounds = 6, .seed = seed},
        [&](const Experiment& experiment) {
          names.push_back(experiment.program.schedule);
          return run(experiment, 0);
        },
        predicted);
    EXPECT_TRUE(validation);
    return names;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(Validation, ReportsTheSourceAndEachCaseOfEachRound) {
  std::vector<std::string> reports;
  const auto validation = validate_predictions(
      scenario_of("1f1b", 4), {case_of("1f1b", 4)},
      {.rounds = 2,
       .progress =
           [&](std::size_t done, std::size_t total) {
             reports.push_back(std::to_string(done) + " of " + std::to_string(total));
           }},
      [](const Experiment& experiment) { return run(experiment, 0); }, predicted);
  ASSERT_TRUE(validation);
  EXPECT_EQ(reports, (std::vector<std::string>{"1 of 4", "2 of 4", "3 of 4", "4 of 4"}));
}

TEST(Validation, TheIntervalIsThatOfStudent) {
  // Mean 2, standard deviation 1, n = 3: 4.3027 / sqrt(3) = 2.4842.
  const MeanInterval interval = interval_of({1, 2, 3});
  EXPECT_EQ(interval.mean, 2);
  EXPECT_NEAR(interval.half_width, 2.4842, 1e-4);
  EXPECT_EQ(verdict_of({.mean = 0.03, .half_width = 0.02}, 0.05), ValidationVerdict::holds);
  EXPECT_EQ(verdict_of({.mean = 0.03, .half_width = 0.021}, 0.05), ValidationVerdict::unclear);
  EXPECT_EQ(verdict_of({.mean = -0.08, .half_width = 0.02}, 0.05), ValidationVerdict::misses);
}

TEST(Validation, TheJsonHasTheFiguresOfTheTable) {
  const auto validation = validate_predictions(
      scenario_of("1f1b", 4), {case_of("1f1b", 4)}, {.rounds = 2},
      [](const Experiment& experiment) { return run(experiment, 0); }, predicted);
  ASSERT_TRUE(validation);
  const auto document = nlohmann::json::parse(validation_to_json(*validation));
  EXPECT_EQ(document["kind"], "validation");
  EXPECT_EQ(document["verdict"], "holds");
  EXPECT_EQ(document["cases"][0]["name"], "1f1b, M 4");
  EXPECT_EQ(document["cases"][0]["predicted_ns"], document["cases"][0]["measured_ns"]);
  EXPECT_NE(validation_to_table(*validation).find("1f1b, M 4"), std::string::npos);
}

}  // namespace
}  // namespace penstock
