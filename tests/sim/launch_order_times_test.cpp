// Tests the times of programs whose operations start in the order of their launches. Some times are computed
// by hand. Others are those of the schedules that become longest by this order. engines_test.cpp compares the
// engines on random programs. The tests in tests/backend/standin compare the makespans of all schedules with
// those of a model of NCCL.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "report/timeline/timeline.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/why/explain.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/reference_engine.hpp"

namespace penstock {
namespace {

/// Returns GPipe on two ranks. On rank 0, F takes 10 and B takes 20. On rank 1, both take 1. A message takes
/// 5.
Experiment slow_first_rank() {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP\n",
      "slow_first_rank.psched");
  EXPECT_TRUE(program) << program.error();
  CostTable costs = uniform_costs(*program, {.forward_ns = 10, .backward_ns = 20}, {5, 5});
  costs.stages[1].forward_ns = costs.stages[1].backward_ns = 1;
  return experiment_of(*program, costs, uniform_links(2, 1e9, 0));
}

Ns start_of(const Timeline& timeline, const std::string& action) {
  const auto found =
      std::ranges::find_if(timeline.spans, [&](const Span& span) { return to_text(span.action) == action; });
  return found == timeline.spans.end() ? -1 : found->start_ns;
}

//   rank 0   F0--------F1--------.....B0--      F = 10 and B = 20 on rank 0, 1 on rank 1, a message = 5
//   channel            SSSSS     SSSSS
//   rank 1                  FB        |         B0 leaves at 20, when the launch before its RECV has started
//            launches of rank 0: SEND_F0 SEND_F1 RECV_B0 RECV_B1
TEST(LaunchOrderTimes, AReceiveStartsAfterTheSendThatWasLaunchedBeforeIt) {
  Experiment experiment = slow_first_rank();
  const Timeline free = *critical_path(experiment);
  EXPECT_EQ(start_of(free, "1SEND_B0"), 17);
  EXPECT_EQ(start_of(free, "0B0"), 22);
  experiment.channels.launch_order = true;
  const Timeline ordered = *critical_path(experiment);
  EXPECT_EQ(start_of(ordered, "0SEND_F1"), 20);
  EXPECT_EQ(start_of(ordered, "1SEND_B0"), 20);
  EXPECT_EQ(start_of(ordered, "0B0"), 25);
  EXPECT_EQ(ordered, reference_engine(experiment));
  EXPECT_EQ(ordered, *event_simulation(experiment));
}

// A rank that waits for each of its transfers launches no other operation during the wait.
TEST(LaunchOrderTimes, RanksThatWaitForTheirTransfersLoseNothing) {
  for (const Blocking blocking : {Blocking::each, Blocking::batched}) {
    Experiment experiment =
        uniform_experiment("interleaved", {.stages = 4, .microbatches = 8, .virtual_stages = 2},
                           {.forward_ns = 10, .backward_ns = 20, .latency_ns = 3});
    experiment.channels.blocking = blocking;
    const auto unordered = critical_path(experiment);
    ASSERT_TRUE(unordered) << unordered.error().message;
    const Timeline free = *unordered;
    experiment.channels.launch_order = true;
    EXPECT_EQ(*critical_path(experiment), free);
    EXPECT_EQ(*event_simulation(experiment), free);
  }
}

/// Returns the percentage by which the launch order makes a run longer. The run has K = 8 and M = 16, and
/// links take no time.
double added_percent(const std::string& schedule) {
  Experiment experiment = uniform_experiment(
      schedule, {.stages = 8, .microbatches = 16, .virtual_stages = chunks_to_try(*find_schedule(schedule))},
      {.forward_ns = 5'000'000, .backward_ns = 10'000'000});
  const Ns free = makespan_ns(experiment);
  experiment.channels.launch_order = true;
  return 100 * (static_cast<double>(makespan_ns(experiment)) / static_cast<double>(free) - 1);
}

// On a model of NCCL, the launch order made the runs 17.7, 35.3, 20.3, 17.5 and 30.7 % longer. The rule
// explains all of this except the time of launches and copies in the model.
TEST(LaunchOrderTimes, SchedulesOfSeveralStagesOnARankLoseMost) {
  const std::map<std::string, double> added = {{"interleaved", 17.1},
                                               {"looped-bfs", 34.2},
                                               {"interleaved-zero-bubble", 19.4},
                                               {"dualpipe", 16.7},
                                               {"dualpipe-v", 30.0}};
  for (const auto& [schedule, percent] : added)
    EXPECT_NEAR(added_percent(schedule), percent, 0.05) << schedule;
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) EXPECT_LT(added_percent(schedule), 1) << schedule;
}

// The second iteration begins while launches of the first one are still in progress. Its period is that of a
// long run.
TEST(LaunchOrderTimes, TheSteadyRateIsThatOfManyIterations) {
  Experiment experiment =
      uniform_experiment("interleaved", {.stages = 4, .microbatches = 8, .virtual_stages = 2},
                         {.forward_ns = 50, .backward_ns = 100, .latency_ns = 3});
  experiment.channels.launch_order = true;
  const auto period = steady_period(experiment, Engine::automatic);
  ASSERT_TRUE(period);
  const auto makespan_of = [&](std::int32_t iterations) {
    experiment.program.iterations = iterations;
    return makespan_ns(experiment);
  };
  EXPECT_EQ((makespan_of(20) - makespan_of(12)) / 8 * period->microbatches, period->period_ns * 8);
}

// In the ideal run, some idle time is caused only by the launch order. This time has its own line in the
// bill.
TEST(LaunchOrderTimes, TheExplanationHasALineForTheOrder) {
  Experiment experiment =
      uniform_experiment("interleaved", {.stages = 4, .microbatches = 8, .virtual_stages = 2},
                         {.forward_ns = 50, .backward_ns = 100});
  const Ns free = makespan_ns(experiment);
  experiment.channels.launch_order = true;
  const Ns ordered = makespan_ns(experiment);
  ASSERT_GT(ordered, free);
  const auto run = caused_run(experiment, Engine::automatic);
  ASSERT_TRUE(run);
  const Explanation why = explained(*run, {});
  EXPECT_EQ(why.makespan_ns, ordered);
  const auto line = std::ranges::find(why.bill, "launch order", &BillLine::cause);
  ASSERT_NE(line, why.bill.end());
  EXPECT_EQ(line->idle_ns, 4 * (ordered - free));
}

}  // namespace
}  // namespace penstock
