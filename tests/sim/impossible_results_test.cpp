// Whichever way a run takes, a result that cannot be is not made of it. A price below nothing, which no
// reader lets through, makes one of any run.

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/executor/link_pace.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/occupy_module.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/trained_model.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/index.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/runs/turn_run.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

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

/// A run of the experiment by nobody: as the critical path has it, with such an error of its clocks.
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
