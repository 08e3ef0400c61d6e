// Tests that every simulated result is possible: for random experiments, and for random scenarios with times
// and sizes that may exceed 64 bits.

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/timeline/timeline.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/hold/baseline.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/why/explain.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

const SimulateOptions kWhole = {.memory = {.samples = false}, .steady = SteadyState::skip};

void check_result(const Result& result) {
  RC_ASSERT(broken_invariant(result).value_or("") == "");
  RC_ASSERT(result_from_json(result_to_json(result), "r.json").has_value());
  const Ns ends_ns = std::ranges::max(result.timeline.spans, {}, &Span::end_ns).end_ns;
  RC_ASSERT(ends_ns == result.makespan_ns);
}

TEST(ResultProperties, ARandomExperimentHasAResultThatCanBe) {
  EXPECT_TRUE(rc::check([](std::uint32_t seed) {
    const Experiment experiment = random_experiment(seed);
    const auto result = simulate(experiment, kWhole);
    RC_ASSERT(result.has_value());
    check_result(*result);
  }));
}

TEST(ResultProperties, ALongestPathGoesForwardInTimeAndEndsWithTheLastAction) {
  EXPECT_TRUE(rc::check([](std::uint32_t seed) {
    const Explanation why = explained(*caused_run(random_experiment(seed)));
    const std::vector<PathStep> path = longest_path(why);
    RC_ASSERT(!path.empty());
    for (std::size_t i = 1; i < path.size(); ++i) RC_ASSERT(path[i].start_ns >= path[i - 1].end_ns);
    RC_ASSERT(path.back().end_ns <= why.makespan_ns);
  }));
}

/// Returns a random number as text, such as "7e12". It may exceed 64 bits.
std::string amount() {
  const int digits = *rc::gen::inRange(1, 10);
  const int exponent =
      *rc::gen::weightedOneOf<int>({{8, rc::gen::inRange(0, 7)}, {2, rc::gen::inRange(7, 21)}});
  return fmt::format("{}e{}", digits, exponent);
}

std::string random_scenario() {
  const auto table = schedule_table();
  const auto& schedule = table[*rc::gen::inRange<std::size_t>(0, table.size())];
  const int stages = *rc::gen::inRange(1, 7);
  return fmt::format(
      "model: {{stages: {{forward: {} ns, backward: {} ns, activation: {} B, kept: {} B, weights: {} B}}}}\n"
      "cluster: {{preset: uniform, devices: {}, bandwidth: {} B/s, latency: {} ns}}\n"
      "schedule: {{name: {}, stages: {}, microbatches: {}}}\n"
      "training: {{micro_batch_size: {}, iterations: {}}}\n",
      amount(), amount(), amount(), amount(), amount(), stages, amount(), amount(), schedule.name, stages,
      *rc::gen::inRange(1, 13), *rc::gen::inRange(1, 5), *rc::gen::inRange(1, 4));
}

TEST(ResultProperties, AScenarioOfAnyMagnitudeIsRefusedOrHasAResultThatCanBe) {
  int simulated = 0;
  int refused = 0;
  EXPECT_TRUE(rc::check([&] {
    const std::string text = random_scenario();
    RC_LOG() << text;
    const auto scenario = parse_scenario(text, "random", "");
    const auto experiment =
        scenario ? prepare(*scenario) : tl::unexpected(UserError{.message = scenario.error()});
    if (!experiment) {
      // All other errors are about shapes that the schedule refuses.
      const std::string& why = experiment.error().message;
      if (why.find("64 bits") != std::string::npos || why.find("too large") != std::string::npos) ++refused;
      return;
    }
    const auto result = simulate(*experiment, kWhole);
    if (!result) return;
    ++simulated;
    check_result(*result);
  }));
  // Each run has another seed, so the counts vary.
  EXPECT_GE(simulated, 1);
  EXPECT_GE(refused, 1);
}

TEST(ResultProperties, ASearchIsNotBegunWithTimesThatItCannotAddUp) {
  const auto error_of = [](const std::string& text) {
    const auto scenario = parse_scenario(text, "search.yaml", "");
    EXPECT_TRUE(scenario);
    const auto experiment = prepare(*scenario);
    return experiment ? std::string("none") : experiment.error().message;
  };
  EXPECT_NE(error_of("model: {stages: {forward: 4e3 ns, backward: 2e18 ns}}\n"
                     "schedule: {name: zb-1p, stages: 2, microbatches: 9}\n")
                .find("64 bits of nanoseconds"),
            std::string::npos);
  EXPECT_NE(error_of("model: {stages: {forward: 7e7 ns, backward: 8e3 ns, kept: 4e18 B}}\n"
                     "schedule: {name: zb-1p, stages: 4, microbatches: 6}\n")
                .find("kept of stage"),
            std::string::npos);
  EXPECT_NE(error_of("model: {stages: {forward: 6e3 ns, backward: 9e3 ns}}\n"
                     "cluster: {preset: uniform, devices: 6, latency: 1e17 ns}\n"
                     "schedule: {name: synthesized, stages: 6, microbatches: 4}\n")
                .find("the schedule searches its order by the model's times"),
            std::string::npos);
}

// No kind of run may return an impossible result. A negative price, which readers refuse, makes the result of
// any run impossible.

Scenario priced_below_nothing(int microbatches) {
  Scenario scenario =
      parse_scenario("schedule: {name: 1f1b, stages: 4, microbatches: " + std::to_string(microbatches) + "}",
                     "priced.yaml", ".")
          .value();
  scenario.cluster.price_per_device_hour = -1;
  return scenario;
}

void expect_not_made(const std::function<void()>& run) {
  EXPECT_THAT(run, testing::ThrowsMessage<std::logic_error>(testing::StartsWith(
                       "throughput.cost_per_million_samples: expected at least 0, got -")));
}

TEST(ImpossibleResults, AreNotMadeOfStoredLists) {
  expect_not_made([] { static_cast<void>(predict_stored(priced_below_nothing(8), {})); });
}

TEST(ImpossibleResults, AreNotMadeByTurns) {
  const Experiment experiment = prepare(priced_below_nothing(8), ProgramForm::lists).value();
  expect_not_made([&] { static_cast<void>(turn_run(experiment, {}, std::nullopt)); });
}

TEST(ImpossibleResults, AreNotMadeOfARow) {
  const SimulateOptions row{
      .memory = {.samples = false}, .timeline = TimelineKept::none, .figures = WantedFigures::of_rows};
  expect_not_made([&] { static_cast<void>(predict(priced_below_nothing(8), row)); });
}

TEST(ImpossibleResults, AreNotMadeOfAStreamLongOrShort) {
  const SimulateOptions streamed{
      .memory = {.samples = false}, .steady = SteadyState::skip, .timeline = TimelineKept::none};
  for (const int microbatches : {8, 1 << 22}) {
    const Scenario scenario = priced_below_nothing(microbatches);
    ASSERT_EQ(planned(scenario, streamed)->engine, RunEngine::stream);
    expect_not_made([&] { static_cast<void>(predict(scenario, streamed)); });
  }
}

TEST(ImpossibleResults, AreNotMadeWithRatesOfAModel) {
  Experiment experiment = uniform_experiment("1f1b", {.stages = 2, .microbatches = 2}, {});
  experiment.trained = TrainedModel{.flops_per_sample = -1, .peak_flops_per_second = 1};
  EXPECT_THAT([&] { static_cast<void>(simulate(experiment, {})); },
              testing::ThrowsMessage<std::logic_error>(
                  testing::StartsWith("throughput.model_flops_per_second_per_device: expected at least 0")));
}

/// Passes a made-up run of the experiment to measure(). The run has the times of the critical path, with this
/// error of the clocks.
void measure_with_clock_error(const Experiment& experiment, Ns clock_error_ns) {
  const OccupyFamily family(experiment, {});
  const auto execute = [&](const PreparedRun& run) {
    return std::vector<ExecutedRun>(
        index(run.runs()),
        {.timeline = *critical_path(experiment), .accounts = {}, .clock_error_ns = clock_error_ns});
  };
  static_cast<void>(
      measure(experiment, [](const FlatProgram&) { return LinkPace{}; }, {}, family,
              {.engine = "cpu-process", .transport = "sockets", .channels = {}, .execute = execute}));
}

TEST(ImpossibleResults, AreNotMadeOfAMeasurement) {
  Experiment experiment = uniform_experiment("1f1b", {.stages = 2, .microbatches = 2}, {});
  EXPECT_THAT([&] { measure_with_clock_error(experiment, -1); },
              testing::ThrowsMessage<std::logic_error>("clock_error_ns: expected at least 0, got -1"));
  experiment.price_per_device_hour = -1;
  expect_not_made([&] { measure_with_clock_error(experiment, 1); });
}

}  // namespace
}  // namespace penstock
