// The steady state of an asynchronous schedule does not depend on how long its run is.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "report/timeline/timeline.hpp"
#include "report/timeline/walk_timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/stream_period.hpp"
#include "sim/runs/endless_stream.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/schedules/shapes.hpp"

namespace penstock {
namespace {

Scenario scenario(const std::string& text) {
  auto loaded = parse_scenario(text, "stream.yaml", ".");
  EXPECT_TRUE(loaded) << loaded.error();
  return *loaded;
}

/// Three stages of 3, 4 and 5 ms, a minibatch of 2 samples and `rest`.
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

// Two servers of two devices: the second and third stage share the link between the servers.
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

// Only 3.3e19 minibatches would be shared evenly by all replicas: no stream has so many, and no number of 64
// bits is so large.
TEST(EndlessStream, OfReplicasWithoutACommonMultipleHasNoRounds) {
  const Scenario primes = scenario(
      "schedule: {name: 1f1b-rr, stages: 16, microbatches: 64, routing: global, replica_sync: off,\n"
      "           replicas: [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53]}");
  const auto experiment = prepare(primes);
  ASSERT_TRUE(experiment);
  // Of so many actions a pass no stream is longer than 2048 minibatches.
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

// The spans of a stream that turns have placed say what the times of its lists say.
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

// Replicas of two stages may be on one rank or not, by microbatch: their messages are counted one by one.
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
