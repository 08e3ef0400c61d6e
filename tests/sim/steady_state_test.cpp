// The extrapolated rate is the simulated one.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "report/timeline/timeline.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/period.hpp"
#include "sim/engines/steady_state.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/random_experiment.hpp"

namespace penstock {
namespace {

Experiment uneven(const std::string& schedule, const Shape& shape) {
  const Program program = *generate(schedule, shape);
  CostTable costs;
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    costs.stages.push_back({.forward_ns = 100 + 37 * (stage % 3),
                            .backward_ns = 210 - 13 * (stage % 4),
                            .backward_input_ns = 90,
                            .backward_weight_ns = 120 - 7 * stage,
                            .step_ns = 11,
                            .gradients = 50});
  }
  costs.edges.assign(stage_edges(program).size(), {.activation = 60, .gradient = 40});
  return experiment_of(program, costs, uniform_links(program.rank_count(), 1e9, 9));
}

/// The obvious way: all passes one after the other, as long as it takes until the last one repeats an earlier
/// one.
std::optional<Period> period_of_timelines(Experiment experiment) {
  for (const std::int32_t passes : {2, 4, 8, 16, 32, 64}) {
    experiment.program.iterations = passes;
    const Timeline timeline = *critical_path(experiment);
    std::vector<std::vector<Ns>> rows(static_cast<std::size_t>(passes));
    auto span = timeline.spans.begin();
    for (const auto& list : experiment.program.ranks) {
      for (auto& row : rows) {
        for (std::size_t i = 0; i < list.size(); ++i, ++span) {
          row.push_back(span->start_ns);
          row.push_back(span->end_ns);
        }
      }
    }
    for (std::size_t back = 1; back <= rows.size() / 2; ++back) {
      std::vector<Ns> moved = rows[rows.size() - 1 - back];
      const Ns amount = rows.back().front() - moved.front();
      for (Ns& time : moved) time += amount;
      if (moved == rows.back())
        return Period{amount, static_cast<std::int64_t>(back) * experiment.program.microbatches};
    }
  }
  return std::nullopt;
}

TEST(SteadyState, TheTapeOfOnePassSaysWhatManyPassesSay) {
  int found = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const Shape& shape : {Shape{.stages = 2, .microbatches = 4},
                               Shape{.stages = 4, .microbatches = 8, .virtual_stages = 2}}) {
      if (!generate(schedule.name, shape)) continue;
      Experiment experiment = uneven(std::string(schedule.name), shape);
      if (experiment.program.update == UpdateRule::microbatch) continue;
      for (const ChannelModel model : kChannelModels) {
        for (const bool blocking : {false, true}) {
          experiment.channels = {.model = model, .blocking = blocking};
          if (find_hang(experiment.program, experiment.channels, experiment.costs)) continue;
          for (const bool barrier : {false, true}) {
            SCOPED_TRACE(testing::Message() << schedule.name << " K=" << shape.stages << " " << to_text(model)
                                            << (blocking ? " blocking" : "") << (barrier ? " barrier" : ""));
            experiment.program.barrier = barrier;
            const auto expected = period_of_timelines(experiment);
            EXPECT_EQ(steady_period(experiment, Engine::critical_path), expected);
            if (!links_are_shared(experiment)) {
              EXPECT_EQ(steady_period(experiment, Engine::event), expected);
            }
            found += expected ? 1 : 0;
          }
        }
      }
    }
  }
  EXPECT_GT(found, 300);
}

TEST(SteadyState, TheTapeOfOnePassSaysWhatManyPassesSayOfRandomPrograms) {
  int found = 0;
  for (std::uint32_t seed = 1; seed <= 1500; ++seed) {
    Experiment experiment = random_experiment(seed);
    experiment.program.iterations = 1;
    if (experiment.program.update == UpdateRule::microbatch) continue;
    const auto expected = period_of_timelines(experiment);
    ASSERT_EQ(steady_period(experiment, Engine::critical_path), expected) << "seed " << seed;
    experiment.channels = {};
    if (find_hang(experiment.program, {}, experiment.costs)) continue;
    ASSERT_EQ(steady_period(experiment, Engine::critical_path), period_of_timelines(experiment))
        << "seed " << seed;
    found += expected ? 1 : 0;
  }
  EXPECT_GT(found, 500);
}

TEST(SteadyState, MorePassesTakeAMultipleOfThePeriodLonger) {
  for (const char* name : {"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "data-parallel"}) {
    for (const std::int32_t stages : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message() << name << " K=" << stages);
      Experiment experiment = uneven(name, {.stages = stages, .microbatches = 8});
      const auto period = steady_period(experiment, Engine::critical_path);
      ASSERT_TRUE(period);
      const std::int64_t passes = period->microbatches / 8;
      experiment.program.iterations = 40;
      const Ns early = makespan_ns(experiment);
      experiment.program.iterations = 40 + static_cast<std::int32_t>(3 * passes);
      EXPECT_EQ(makespan_ns(experiment) - early, 3 * period->period_ns);
    }
  }
}

TEST(SteadyState, ALongerStreamTakesAMultipleOfThePeriodLonger) {
  for (const std::vector<std::int32_t>& replicas :
       {std::vector<std::int32_t>{1, 1, 1, 1}, {2, 1}, {2, 2}, {3, 1, 2}}) {
    const auto stages = static_cast<std::int32_t>(replicas.size());
    const Shape shape{.stages = stages, .microbatches = 240, .replicas = replicas};
    const auto period = steady_period(uneven("1f1b-rr", shape), Engine::critical_path);
    ASSERT_TRUE(period);
    // 240 and 480 are multiples of every period here.
    ASSERT_EQ(240 % period->microbatches, 0);
    Shape longer = shape;
    longer.microbatches = 480;
    Shape longest = shape;
    longest.microbatches = 720;
    const Ns added = makespan_ns(uneven("1f1b-rr", longest)) - makespan_ns(uneven("1f1b-rr", longer));
    EXPECT_EQ(added, 240 / period->microbatches * period->period_ns);
  }
}

TEST(SteadyState, AStreamOfSlicedMicrobatchesCountsMicrobatchesNotSlices) {
  Program program{.schedule = "sliced-stream",
                  .microbatches = 40,
                  .slices = 2,
                  .update = UpdateRule::microbatch,
                  .placement = {.stages = {{.ranks = {0}}}},
                  .ranks = {{}}};
  for (std::int32_t m = 0; m < program.microbatches; ++m) {  // F0 F1 B1 B0 STEP  F2 F3 B3 B2 STEP ...
    std::vector<Action>& list = program.ranks.front();
    for (const std::int32_t unit : {2 * m, 2 * m + 1}) list.push_back(forward(0, unit, m));
    for (const std::int32_t unit : {2 * m + 1, 2 * m}) list.push_back(backward(0, unit, m));
    list.push_back(whole_stage(ActionKind::step, 0));
  }
  const auto period = steady_period(experiment_of(program, unit_costs(program), uniform_links(1, 1e9, 0)),
                                    Engine::critical_path);
  ASSERT_TRUE(period);
  EXPECT_EQ(period->microbatches, 1);
  EXPECT_EQ(period->period_ns, 2 * (1'000'000 + 2'000'000)) << "two slices of F 1 ms and B 2 ms each";
}

TEST(SteadyState, ABarrierKeepsPassesFromOverlapping) {
  Experiment experiment = uneven("zb-h1", {.stages = 2, .microbatches = 4});
  experiment.costs.stages[1].backward_weight_ns =
      500;  // the last rank is still busy when the first could go on
  const auto free = steady_period(experiment, Engine::critical_path);
  experiment.program.barrier = true;
  const auto held = steady_period(experiment, Engine::critical_path);
  ASSERT_TRUE(free && held);
  EXPECT_LT(free->period_ns, held->period_ns);
  EXPECT_EQ(held->period_ns, makespan_ns(experiment));
}

TEST(SteadyState, ATooShortStreamShowsNoPeriod) {
  EXPECT_FALSE(steady_period(uneven("1f1b-rr", {.stages = 4, .microbatches = 4}), Engine::critical_path));
}

// GNMT-8 on four balanced stages (its profile's cut at 25.868 ms, PipeDream's released profiles): one
// minibatch in flight takes the sum of the stages, four hide all but the slowest.
TEST(SteadyState, DepthFourReachesTheSlowestStage) {
  const Program one = *generate("1f1b-rr", {.stages = 4, .microbatches = 40, .warmup = {0, 0, 0, 0}});
  const Program four = *generate("1f1b-rr", {.stages = 4, .microbatches = 60});
  CostTable costs{.stages = {}, .edges = {3, EdgeCost{}}};
  for (const Ns both : {19'512'000, 21'886'000, 22'150'000, 25'868'000}) {
    costs.stages.push_back({.forward_ns = both / 3, .backward_ns = both - both / 3});
  }
  const Cluster links = uniform_links(4, kUnlimitedBandwidth, 0);
  EXPECT_EQ(steady_period(experiment_of(one, costs, links), Engine::critical_path), (Period{89'416'000, 1}));
  EXPECT_EQ(steady_period(experiment_of(four, costs, links), Engine::critical_path), (Period{25'868'000, 1}));
}

}  // namespace
}  // namespace penstock
