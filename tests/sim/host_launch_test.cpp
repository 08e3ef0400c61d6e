// Tests hosts that launch actions. First, the effect of launch times on the makespan in small cases, computed
// by hand. Then all engines are compared with the slow reference, on random programs with random launch
// costs.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/network/message_costs.hpp"
#include "tests/scenarios/read_scenario.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/reference_engine.hpp"

namespace penstock {
namespace {

/// Returns an experiment with GPipe on one rank: F F .. B B .., and a STEP that takes no time.
Experiment one_rank(Ns forward_ns, Ns backward_ns, const LaunchCost& launch) {
  Experiment experiment = uniform_experiment("gpipe", {.stages = 1, .microbatches = 3},
                                             {.forward_ns = forward_ns, .backward_ns = backward_ns});
  experiment.costs.launch = launch;
  return experiment;
}

std::vector<Ns> compute_starts(const Experiment& experiment) {
  std::vector<Ns> starts;
  const auto timeline = critical_path(experiment);
  for (const Span& span : timeline->spans) {
    if (is_compute(span.action.kind)) starts.push_back(span.start_ns);
  }
  return starts;
}

TEST(HostLaunch, IsSeenOnceWhereComputingTakesLonger) {
  // host    |L|L|L|L|L|L|L|
  // device    |F---|F---|F---|B---|B---|B---|
  EXPECT_EQ(makespan_ns(one_rank(10, 10, {})), 60);
  EXPECT_EQ(makespan_ns(one_rank(10, 10, {.overhead_ns = 4})), 64);
}

TEST(HostLaunch, IsAllThatIsSeenWhereComputingIsShorter) {
  // host    |L---|L---|L---|L---|L---|L---|L---|
  // device       |F-| |F-| |F-| |B-| |B-| |B-| |STEP, of no time
  EXPECT_EQ(compute_starts(one_rank(2, 2, {.overhead_ns = 5})), (std::vector<Ns>{5, 10, 15, 20, 25, 30, 35}));
}

TEST(HostLaunch, RunsAheadOfLongActionsAndPaysForShortOnesBehindThem) {
  // Six launches have ended at 24, and the first forward has ended at 14. So the forwards hide all launches
  // of backwards.
  EXPECT_EQ(compute_starts(one_rank(10, 1, {.overhead_ns = 4})),
            (std::vector<Ns>{4, 14, 24, 34, 35, 36, 37}));
  // If the host may be at most two actions ahead, a backward is launched when the second action before it has
  // ended.
  EXPECT_EQ(compute_starts(one_rank(10, 1, {.overhead_ns = 4, .most_ahead = 2})),
            (std::vector<Ns>{4, 14, 24, 34, 38, 42, 46}));
}

TEST(HostLaunch, ThatIsOneActionAheadIsSeenEveryTime) {
  EXPECT_EQ(makespan_ns(one_rank(10, 10, {.overhead_ns = 4, .most_ahead = 1})), 6 * (10 + 4) + 4);
}

TEST(HostLaunch, DelaysMessagesAtBothEnds) {
  //   rank 0  |L F0     |L SEND_F0|L RECV_B0|L B0     |L STEP   |
  //   rank 1  |L RECV_F0|L F0     |L B0     |L SEND_B0|L STEP   |
  //           0         10        20        30        40        50
  //
  // The activation starts at 20, when its SEND and its RECV are launched. The gradient starts at 40.
  Experiment experiment = uniform_experiment("gpipe", {.stages = 2, .microbatches = 1}, {});
  experiment.costs.launch.overhead_ns = 10;
  EXPECT_EQ(compute_starts(experiment), (std::vector<Ns>{10, 40, 50, 20, 30, 50}))
      << to_text(experiment.program);
}

TEST(HostLaunch, AheadWithoutTimeOfItsOwnStillBoundsWhatIsPosted) {
  // The RECV is in the list after the rank's first compute action, so it is posted after the launch of this
  // action.
  Experiment experiment = uniform_experiment("1f1b", {.stages = 2, .microbatches = 4}, {.latency_ns = 3});
  const Ns free = makespan_ns(experiment);
  experiment.costs.launch.most_ahead = 64;
  EXPECT_EQ(makespan_ns(experiment), free) << "more than there are actions";
  experiment.costs.launch.most_ahead = 1;
  EXPECT_EQ(critical_path(experiment)->spans, reference_engine(experiment).spans);
}

// --- against the reference ---------------------------------------------------------------------------------

LaunchCost random_launch(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::int32_t most) { return std::uniform_int_distribution(0, most)(random); };
  const Ns overheads[] = {0, 1, 7, 40, 400};
  return {.overhead_ns = overheads[pick(4)], .most_ahead = pick(1) * pick(5)};
}

TEST(HostLaunch, OfRandomProgramsIsTheSameToEveryEngine) {
  int launching = 0;
  for (std::uint32_t seed = 1; seed <= 1500; ++seed) {
    Experiment experiment = random_experiment(seed);
    experiment.costs.launch = random_launch(seed);
    launching += experiment.costs.launch.is_free() ? 0 : 1;
    const std::string where = "seed " + std::to_string(seed) + "\n" + to_text(experiment.program);
    const Timeline expected = reference_engine(experiment);
    ASSERT_EQ(critical_path(experiment)->spans, expected.spans) << where;
    const FlatProgram flat = flat_of(experiment);
    const auto walked = walk(flat, walk_durations(experiment, flat), experiment.channels);
    ASSERT_EQ(last_end(*walked), expected.makespan_ns) << where;
    if (links_are_shared(experiment)) continue;
    ASSERT_EQ(event_simulation(experiment)->spans, expected.spans) << where;
  }
  EXPECT_GT(launching, 1000);
}

TEST(HostLaunch, OfEveryGeneratorIsTheSameToEveryEngine) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const LaunchCost& launch :
         {LaunchCost{.overhead_ns = 3}, LaunchCost{.overhead_ns = 2, .most_ahead = 1},
          LaunchCost{.most_ahead = 2}}) {
      const Shape shape{
          .stages = 4, .microbatches = 8, .virtual_stages = chunks_to_try(schedule), .iterations = 2};
      Experiment experiment = uniform_experiment(std::string(schedule.name), shape, {.latency_ns = 2});
      experiment.costs.launch = launch;
      const Timeline expected = reference_engine(experiment);
      ASSERT_EQ(critical_path(experiment)->spans, expected.spans) << schedule.name;
      ASSERT_EQ(event_simulation(experiment)->spans, expected.spans) << schedule.name;
    }
  }
}

TEST(HostLaunch, IsATimeOfTablesLikeOthersInLanes) {
  Experiment experiment = uniform_experiment("1f1b", {.stages = 4, .microbatches = 16}, {.latency_ns = 3});
  experiment.costs.launch = {.overhead_ns = 1, .most_ahead = 3};
  const std::optional<Tape> tape = compile(flat_of(experiment), experiment.channels);
  ASSERT_TRUE(tape);
  std::vector<TapeCosts> tables;
  for (std::size_t table = 0; table < kLanes; ++table) {
    experiment.costs.launch.overhead_ns = static_cast<Ns>(table);
    tables.push_back(tape_costs(*tape, experiment));
  }
  const LaneTimes makespans = makespans_ns(*tape, tables);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    experiment.costs.launch.overhead_ns = static_cast<Ns>(lane);
    EXPECT_EQ(makespans[lane], reference_engine(experiment).makespan_ns) << lane;
  }
}

TEST(HostLaunch, SetsThePeriodWhereTheHostIsTheBottleneck) {
  // In each iteration, GPipe on one rank launches four F, four B and a STEP.
  Experiment experiment = uniform_experiment("gpipe", {.stages = 1, .microbatches = 4}, {});
  experiment.costs.launch.overhead_ns = 5;
  const Period host_bound{.period_ns = 9 * 5, .microbatches = 4};
  EXPECT_EQ(steady_period(experiment, Engine::critical_path), host_bound);
  EXPECT_EQ(steady_period(experiment, Engine::event), host_bound);
  experiment.costs.launch.overhead_ns = 1;
  const Period device_bound{.period_ns = 4 * (1 + 2), .microbatches = 4};
  EXPECT_EQ(steady_period(experiment, Engine::critical_path), device_bound);
}

// --- scenarios ---------------------------------------------------------------------------------------------

TEST(HostLaunch, IsReadFromAScenario) {
  const Scenario scenario = read_scenario(
      "host: {launch_overhead: 5 us, launch_ahead: 256}\nschedule: {name: gpipe, stages: 2, microbatches: "
      "2}");
  EXPECT_EQ(scenario.launch, (LaunchCost{.overhead_ns = 5'000, .most_ahead = 256}));
  EXPECT_EQ(prepared(scenario).costs.launch, scenario.launch);
  EXPECT_TRUE(read_scenario("schedule: 1f1b").launch.is_free());
  EXPECT_EQ(refusal("host: {launch_ahead: 0}"),
            "s.yaml:1:22: host.launch_ahead: expected a whole number from 1 to 2147483647, got \"0\"");
}

}  // namespace
}  // namespace penstock
