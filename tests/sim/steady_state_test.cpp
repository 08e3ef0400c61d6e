// Tests that the steady rate equals the rate of long simulations and does not depend on the length of the
// run. The first half tests repeated passes of synchronous schedules, the second half endless streams of
// asynchronous ones.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"

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

/// Returns the period by a simple method: it simulates more and more passes until the last pass repeats an
/// earlier one.
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
        for (const Blocking blocking : {Blocking::none, Blocking::each, Blocking::batched}) {
          experiment.channels = {.model = model, .blocking = blocking};
          if (find_hang(experiment.program, experiment.channels, experiment.costs)) continue;
          for (const bool barrier : {false, true}) {
            SCOPED_TRACE(testing::Message() << schedule.name << " K=" << shape.stages << " " << to_text(model)
                                            << blocking_suffix(blocking) << (barrier ? " barrier" : ""));
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

// The model is GNMT-8 on four balanced stages, of which the slowest takes 25.868 ms (PipeDream's released
// profiles). With one minibatch in flight, a minibatch takes the sum of the stages. With four in flight, it
// takes the time of the slowest stage.
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

// The steady state of an asynchronous schedule does not depend on the length of its run.

Scenario scenario(const std::string& text) {
  auto loaded = parse_scenario(text, "stream.yaml", ".");
  EXPECT_TRUE(loaded) << loaded.error();
  return *loaded;
}

/// Returns a scenario with three stages of 3, 4 and 5 ms, minibatches of 2 samples, and the text `rest`.
Scenario three_stages(std::int64_t minibatches, const std::string& rest) {
  return scenario(
      "model: {stages: {forward: [1 ms, 1 ms, 2 ms], backward: [2 ms, 3 ms, 3 ms], activation: 1 MB,\n"
      "                 kept: 8 MB, weights: 1 MB}}\n"
      "schedule: {name: 1f1b-rr, microbatches: " +
      std::to_string(minibatches) + "}\ntraining: {micro_batch_size: 2}\n" + rest);
}

Result simulated(const Scenario& stream, Engine engine) {
  const auto result = simulate_scenario(stream, {.engine = engine, .memory = {.samples = false}});
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(Result{});
}

TEST(EndlessStream, IsAsFastAsItsSlowestStageWhateverMIs) {
  for (const Engine engine : {Engine::critical_path, Engine::event}) {
    for (const std::int64_t minibatches : {1, 2, 3, 7, 32, 500}) {
      const auto rate = simulated(three_stages(minibatches, ""), engine).throughput.steady_samples_per_second;
      ASSERT_TRUE(rate) << minibatches;
      EXPECT_DOUBLE_EQ(*rate, 2 / 0.005) << minibatches;
    }
  }
}

// Each of two servers has two devices. The messages between the second and the third stage cross the slow
// link between the servers.
TEST(EndlessStream, HasOneRateAlsoWhereLinksAreShared) {
  constexpr const char* kSlowLinks =
      "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 1 GB/s,\n"
      "          inter_bandwidth: 300 MB/s}\n";
  std::optional<double> first;
  for (const std::int64_t minibatches : {1, 2, 5, 40, 300}) {
    const auto rate =
        simulated(three_stages(minibatches, kSlowLinks), Engine::event).throughput.steady_samples_per_second;
    ASSERT_TRUE(rate) << minibatches;
    if (!first) first = rate;
    EXPECT_EQ(rate, first) << minibatches;
  }
}

TEST(EndlessStream, OfADeepPipelineNeedsNoLongRun) {
  const Scenario deep = scenario("schedule: {name: 1f1b-rr, stages: 8, microbatches: 1}");
  const auto rate = simulated(deep, Engine::automatic).throughput.steady_samples_per_second;
  ASSERT_TRUE(rate);
  EXPECT_DOUBLE_EQ(*rate, 1 / 0.003);
}

TEST(EndlessStream, OfReplicasIsThatOfTheWholeGroup) {
  for (const std::int64_t minibatches : {2, 6, 100}) {
    const Scenario replicated = scenario(
        "model: {stages: {forward: [2 ms, 1 ms], backward: [4 ms, 2 ms]}}\n"
        "schedule: {name: 1f1b-rr, replicas: [2, 1], microbatches: " +
        std::to_string(minibatches) + "}");
    const auto rate = simulated(replicated, Engine::automatic).throughput.steady_samples_per_second;
    ASSERT_TRUE(rate);
    EXPECT_DOUBLE_EQ(*rate, 1 / 0.003) << "two replicas of 6 ms, one of 3 ms";
  }
}

TEST(EndlessStream, OfOneMicrobatchAtATimeIsTheSumOfTheStages) {
  Scenario naive = three_stages(2, "");
  naive.schedule = "naive";
  naive.shape.update = UpdateRule::microbatch;
  const auto rate = simulated(naive, Engine::automatic).throughput.steady_samples_per_second;
  ASSERT_TRUE(rate);
  EXPECT_DOUBLE_EQ(*rate, 2 / 0.012);
}

TEST(EndlessStream, ThatDoesNotFitStillHasItsRateAndANoteSaysSo) {
  constexpr const char* kTight = "cluster: {preset: uniform, memory: 24 MB}\n";
  const Result shorter = simulated(three_stages(1, kTight), Engine::automatic);
  EXPECT_FALSE(shorter.ranks[0].memory.out_of_memory());
  EXPECT_TRUE(shorter.throughput.steady_samples_per_second);
  ASSERT_EQ(shorter.notes.size(), 1U);
  EXPECT_THAT(shorter.notes[0],
              testing::StartsWith("this run fits in memory, but the stream's steady state needs "));
  EXPECT_THAT(shorter.notes[0], testing::HasSubstr(" on rank 0 (gpu0), which has 22.89 MiB"));
  const Result longer = simulated(three_stages(16, kTight), Engine::automatic);
  EXPECT_TRUE(longer.ranks[0].memory.out_of_memory());
  EXPECT_TRUE(longer.notes.empty()) << "what does not fit is reported anyway";
  EXPECT_EQ(longer.throughput.steady_samples_per_second, shorter.throughput.steady_samples_per_second);
}

// All replicas get equally many minibatches only if there are 3.3e19 minibatches. No stream has this number,
// and it does not fit in 64 bits.
TEST(EndlessStream, OfReplicasWithoutACommonMultipleHasNoRounds) {
  const Scenario primes = scenario(
      "schedule: {name: 1f1b-rr, stages: 16, microbatches: 64, routing: global, replica_sync: off,\n"
      "           replicas: [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53]}");
  const auto experiment = prepare(primes);
  ASSERT_TRUE(experiment);
  // With this number of actions in a pass, a stream has at most 2048 minibatches.
  const StreamQuestion question{.attempts = 1, .peaks = false, .actions_of_pass = 1 << 18};
  const auto stream = endless_stream(question, *experiment, Engine::critical_path);
  ASSERT_TRUE(stream);
  EXPECT_FALSE(stream->is_of_any_length);
  EXPECT_FALSE(stream->samples_per_second);
}

TEST(EndlessStream, HoldsWhatALongRunHolds) {
  const auto shorter = predict(three_stages(1, ""), {.memory = {.samples = false}});
  const auto longer = predict(three_stages(64, ""), {.memory = {.samples = false}});
  ASSERT_TRUE(shorter && longer && shorter->stream);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(shorter->stream->memories[rank].peak_bytes, longer->result.ranks[rank].memory.peak_bytes);
    if (rank < 2) {
      EXPECT_LT(shorter->result.ranks[rank].memory.peak_bytes, longer->result.ranks[rank].memory.peak_bytes);
    }
  }
}

TEST(EndlessStream, IsNoneOfASynchronousSchedule) {
  Scenario synchronous = three_stages(4, "");
  synchronous.schedule = "1f1b";
  EXPECT_FALSE(predict(synchronous, {})->stream);
}

// The steady state of a stream from the spans of placement rounds equals that from the times of lowered
// lists.
TEST(EndlessStream, IsReadOffSpansAsOffTheTimesOfLists) {
  int exact = 0;
  for (const char* const rest :
       {"", "cluster: {preset: uniform, bandwidth: 1 GB/s, latency: 2 ms}\n",
        "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 1 GB/s,\n"
        "          inter_bandwidth: 300 MB/s}\n"}) {
    for (const std::int64_t minibatches : {1, 9, 16, 40, 100}) {
      SCOPED_TRACE(testing::Message() << rest << minibatches);
      const auto experiment = prepare(three_stages(minibatches, rest));
      ASSERT_TRUE(experiment);
      const auto run = run_engine(*experiment, Engine::automatic);
      ASSERT_TRUE(run);
      const Timeline timeline = timeline_of(run->flat, experiment->program.placement, run->times);
      const StreamRate of_lists = rate_of_stream(*run, experiment->program);
      const StreamRate of_spans = rate_of_stream(timeline, experiment->program);
      EXPECT_EQ(of_spans.period, of_lists.period);
      EXPECT_EQ(of_spans.is_exact, of_lists.is_exact);
      exact += of_lists.is_exact ? 1 : 0;
    }
  }
  EXPECT_GE(exact, 6);
  EXPECT_LT(exact, 15) << "short ones show no period";
}

// Depending on the microbatch, replicas of two stages may be on the same rank, so messages are counted one by
// one.
TEST(EndlessStream, CountsTheActionsOfALoweredProgramInEveryForm) {
  int counted = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const char* const copies : {"", ", data_parallel: 2"}) {
      const std::string text =
          fmt::format("schedule: {{name: {}, stages: 4, microbatches: 8, virtual_stages: {}{}}}",
                      schedule.name, chunks_to_try(schedule), copies);
      SCOPED_TRACE(text);
      const auto stored = prepare(scenario(text));
      if (!stored) continue;
      ++counted;
      std::int64_t actions = 0;
      for (const auto& list : stored->program.ranks) actions += static_cast<std::int64_t>(list.size());
      for (const ProgramForm form : {ProgramForm::lowered, ProgramForm::lists, ProgramForm::loops})
        EXPECT_EQ(lowered_actions(*prepare(scenario(text), form)), actions);
    }
  }
  EXPECT_GT(counted, 30);
}

TEST(EndlessStream, IsAsDeepBeforeItIsLoweredAsAfter) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    int taken = 0;
    for (const std::int32_t stages : {1, 2, 4}) {
      for (const std::int32_t microbatches : {1, 4, 12}) {
        const auto program = generate(
            schedule.name,
            {.stages = stages, .microbatches = microbatches, .virtual_stages = chunks_to_try(schedule)});
        if (!program) continue;
        ++taken;
        EXPECT_EQ(dependency_depth(*program), dependency_depth(*lower(*program)))
            << schedule.name << " K=" << stages << " M=" << microbatches;
      }
    }
    EXPECT_GT(taken, 0) << schedule.name;
  }
}

}  // namespace
}  // namespace penstock
