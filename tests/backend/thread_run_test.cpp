// Measured results, and their comparison with predictions.

#include <cstdint>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "backend/calibration.hpp"
#include "backend/in_process_transport.hpp"
#include "backend/thread_run.hpp"
#include "report/compare.hpp"
#include "report/result.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/digest.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/program_text.hpp"
#include "sim/simulate.hpp"
#include "tests/backend/execution.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

LinkPace free_links(const FlatProgram&) { return {}; }

Experiment small_experiment(const std::string& schedule) {
  return uniform_experiment(schedule, {.stages = 2, .microbatches = 4},
                            {.forward_ns = 2'000'000, .backward_ns = 2'000'000});
}

Result measured(const Experiment& experiment, const RunOptions& options = {}) {
  auto result = run_on_threads(experiment, free_links, options);
  if (!result) throw std::runtime_error(result.error().message);
  return *std::move(result);
}

TEST(ThreadRun, AResultIsAMeasurementOfTheVeryProgramThatWasPredicted) {
  const Experiment experiment = small_experiment("1f1b");
  const Result result = measured(experiment, {.warmup = 0, .repeats = 3});
  const auto predicted = simulate(experiment, {});
  ASSERT_TRUE(predicted);
  EXPECT_EQ(result.kind, ResultKind::measured);
  EXPECT_EQ(result.engine, "cpu-thread");
  EXPECT_EQ(result.channel, "directed");
  EXPECT_EQ(result.program, predicted->program);
  EXPECT_EQ(result.timeline.spans.size(), predicted->timeline.spans.size());
  EXPECT_EQ(result.makespan_ns, result.timeline.makespan_ns);
  EXPECT_GE(result.makespan_ns, predicted->makespan_ns);
}

TEST(ThreadRun, TimesAreDividedByTheScaleAtWhichTheyWereHeld) {
  const Experiment experiment = small_experiment("gpipe");
  const Result result = measured(experiment, {.warmup = 0, .repeats = 3, .time_scale = 2});
  EXPECT_GE(result.makespan_ns, 20'000'000);
  EXPECT_LT(result.makespan_ns, 38'000'000);
  EXPECT_NE(result.notes.back().find("held 2 times as long"), std::string::npos);
}

TEST(ThreadRun, JitterIsTheSameInEveryRepeatAndOtherForAnotherSeed) {
  Experiment experiment = small_experiment("gpipe");
  const auto busy = [&](std::uint64_t seed) {
    return measured(experiment, {.warmup = 0, .repeats = 3, .jitter = {.fraction = 0.9, .seed = seed}})
        .ranks[0]
        .busy_ns;
  };
  const Ns first = busy(1);
  EXPECT_NEAR(static_cast<double>(busy(1)), static_cast<double>(first), 3e6);
  EXPECT_NE(busy(2) / 1'000'000, first / 1'000'000);
}

TEST(ThreadRun, AProgramThatHangsOnTheTransportIsRefused) {
  // Rank 1 takes the messages of rank 0 in the other order.
  const Program crossed = read_program(
      "penstock program 1\nschedule crossed\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B1 0RECV_B0 0B1 0B0 0STEP\n"
      "rank 1: 1RECV_F1 1RECV_F0 1F1 1F0 1B1 1SEND_B1 1B0 1SEND_B0 1STEP\n");
  Experiment experiment = small_experiment("gpipe");
  experiment.program = crossed;
  experiment.channels.model = ChannelModel::boundary;
  const auto result = run_on_threads(experiment, free_links, {});
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().invalid);
  EXPECT_TRUE(result.error().message.starts_with(
      "the program hangs on the in-process transport (directed channels):"))
      << result.error().message;
}

TEST(ThreadRun, CalibrationFindsAnOverheadAndCostsWithItAreLonger) {
  const auto calibration = calibrate_threads({.action_ns = 1'000'000, .actions = 10, .repeats = 3});
  ASSERT_TRUE(calibration) << calibration.error();
  EXPECT_GT(calibration->action_overhead_ns, 0);
  EXPECT_LT(calibration->action_overhead_ns, 5'000'000);
  CostTable costs{.stages = {{.forward_ns = 10, .backward_ns = 20}}, .edges = {}};
  EXPECT_EQ(with_overhead(costs, 5).stages[0].forward_ns, 15);
  EXPECT_EQ(with_overhead(costs, 5).stages[0].backward_ns, 25);
  EXPECT_EQ(with_overhead(costs, 5).stages[0].step_ns, 0);
}

}  // namespace
}  // namespace penstock
