// Tests streamed runs, from the text of a scenario to its Result. Compares them with stored runs, if these
// are possible.

#include "sim/runs/plan_run.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

Scenario parsed(const std::string& text) { return *parse_scenario(text, "long.yaml", "."); }

const SimulateOptions kFigures{
    .memory = {.samples = false}, .steady = SteadyState::skip, .timeline = TimelineKept::none};

TEST(StreamedRun, GivesTheFiguresOfALongPass) {
  const auto result =
      simulate_scenario(parsed("schedule: {name: 1f1b, stages: 64, microbatches: 262144}"), kFigures);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->engine, "streamed");
  EXPECT_EQ(result->makespan_ns, (262'144 + 63) * Ns{3'000'000});
  EXPECT_EQ(result->program.microbatches, 262'144);
  EXPECT_EQ(result->program.digest, "");
  EXPECT_TRUE(result->timeline.spans.empty());
  ASSERT_EQ(result->ranks.size(), 64U);
  EXPECT_EQ(result->ranks[0].memory.peak_bytes, 64 * kActivationParts);
  EXPECT_EQ(result->ranks[0].memory.unit, MemoryUnit::activations);
  EXPECT_EQ(result->ranks[63].peak_live_activations, 1);
  EXPECT_DOUBLE_EQ(result->bubble.idle_over_ideal, 63.0 / 262'144);
  EXPECT_THAT(result->notes, testing::Contains(testing::HasSubstr("were streamed, not stored")));
}

TEST(StreamedRun, GivesTheSteadyRateOfAStream) {
  const auto result =
      simulate_scenario(parsed("schedule: {name: 1f1b-rr, stages: 64, microbatches: 262144}"), kFigures);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_DOUBLE_EQ(result->throughput.steady_samples_per_second.value_or(0), 1e9 / 3e6);
  EXPECT_DOUBLE_EQ(result->throughput.samples_per_update, 1);
  EXPECT_EQ(result->ranks[0].weight_versions, 64);
}

Prediction stored_prediction(const Scenario& scenario) {
  return predict_stored(scenario, {.memory = {.samples = false}, .timeline = TimelineKept::none}).value();
}

std::string scenario_text(const ScheduleInfo& schedule, std::mt19937& draw) {
  const auto below = [&](std::uint32_t bound) { return static_cast<int>(draw() % bound); };
  const int stages = 1 + below(6);
  std::string text = fmt::format("schedule: {{name: {}, stages: {}, microbatches: {}", schedule.name, stages,
                                 stages * (1 + below(12)) + (below(3) == 0 ? below(5) : 0));
  const int chunks = takes_chunks(schedule) ? 1 + below(2) : 1;
  if (takes_chunks(schedule)) text += fmt::format(", virtual_stages: {}", chunks);
  if (below(3) == 0) text += ", data_parallel: 2";
  text += "}\n";
  if (below(2) == 0)
    text += fmt::format("cluster: {{bandwidth: 1 GB/s, latency: {} us}}\n", below(2) * (1 + below(900)));
  if (below(2) == 0 || below(2) == 0) {
    text += fmt::format(
        "model: {{stages: {{forward: {} us, backward_input: {} us, backward_weight: {} us, activation: {} "
        "KiB, "
        "weights: 3 MiB, step: {} us}}}}\n",
        1 + below(5), 1 + below(5), 1 + below(5), below(2) * below(5), below(3));
  }
  return text;
}

// All figures must be equal, and also the digest and the steady rate.
TEST(StreamedRun, SaysOfShortRunsWhatAStoredRunSays) {
  std::map<std::string_view, int> streamed;
  int with_rate = 0;
  for (std::uint32_t seed = 1; seed <= 800; ++seed) {
    std::mt19937 draw(seed);
    const ScheduleInfo& schedule = schedule_table()[seed % schedule_table().size()];
    const std::string text = scenario_text(schedule, draw);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ":\n" << text);
    const auto scenario = parse_scenario(text, "short.yaml", ".");
    ASSERT_TRUE(scenario) << scenario.error();
    SimulateOptions figures = kFigures;
    figures.steady = SteadyState::find;
    const auto plan = planned(*scenario, figures);
    if (!plan || plan->engine != RunEngine::stream) continue;
    const auto run = predict(*scenario, figures);
    ASSERT_TRUE(run) << run.error().message;
    const Result* const result = &run->result;
    const Prediction stored_run = stored_prediction(*scenario);
    const Result& stored = stored_run.result;
    EXPECT_EQ(run->stream.has_value(), stored_run.stream.has_value());
    if (run->stream && stored_run.stream) {
      EXPECT_EQ(run->stream->memories, stored_run.stream->memories);
      EXPECT_EQ(run->stream->is_exact, stored_run.stream->is_exact);
    }
    EXPECT_FALSE(result->program.digest.empty());
    EXPECT_EQ(result->throughput, stored.throughput);
    ASSERT_TRUE(*result == stored);
    figures.digest = ProgramDigest::skip;
    Result unnamed = predict(*scenario, figures).value().result;
    EXPECT_EQ(std::exchange(unnamed.program.digest, stored.program.digest), "");
    ASSERT_TRUE(unnamed == stored);
    ++streamed[schedule.name];
    with_rate += result->throughput.steady_samples_per_second ? 1 : 0;
  }
  EXPECT_GE(streamed.size(), 12U);
  EXPECT_GE(with_rate, 300);
}

// For models on devices, one copy of the pipeline is predicted, and its messages have bytes.
TEST(StreamedRun, SaysOfModelsOnDevicesWhatAStoredRunSays) {
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved-1f1b", "zb-h1"}) {
    for (const std::string training : {"", ", recompute: full", ", recompute: selective"}) {
      SCOPED_TRACE(schedule + training);
      const auto scenario =
          parse_scenario(fmt::format("model: {{huggingface: llama-3.1-8b.json, sequence: 4096}}\n"
                                     "cluster: {{device: h100-sxm}}\nschedule: {{name: {}, stages: 4}}\n"
                                     "training: {{micro_batch_size: 1, global_batch_size: 40{}}}\n",
                                     schedule, training),
                         "devices.yaml", source_path("scenarios/library/models"));
      ASSERT_TRUE(scenario) << scenario.error();
      SimulateOptions figures = kFigures;
      figures.steady = SteadyState::find;
      const auto plan = planned(*scenario, figures);
      ASSERT_TRUE(plan) << plan.error().message;
      EXPECT_EQ(plan->engine, RunEngine::stream);
      const auto run = predict(*scenario, figures);
      ASSERT_TRUE(run) << run.error().message;
      const Prediction stored = stored_prediction(*scenario);
      EXPECT_EQ(run->result.program.copies, 2);
      EXPECT_EQ(run->result.program.copies, stored.result.program.copies);
      EXPECT_TRUE(run->result == stored.result);
    }
  }
}

TEST(StreamedRun, LeavesToStoredRunsWhatOnlyTheyKnow) {
  const auto is_streamed = [](const std::string& text, const SimulateOptions& options) {
    return planned(parsed(text), options)->engine == RunEngine::stream;
  };
  const std::string plain = "schedule: {name: 1f1b, stages: 4, microbatches: 16}";
  EXPECT_TRUE(is_streamed(plain, kFigures));
  EXPECT_FALSE(is_streamed(plain, {.engine = Engine::event, .memory = {.samples = false}}));
  EXPECT_FALSE(is_streamed(plain, {.memory = {.samples = true}}));  // memory over time needs spans
  EXPECT_FALSE(is_streamed("schedule: {name: 1f1b, stages: 4, microbatches: 16, blocking: true}", kFigures));
  EXPECT_TRUE(is_streamed("schedule: {name: 1f1b-rr, stages: 4, microbatches: 16}", kFigures));
  SimulateOptions without_stream = kFigures;
  without_stream.steady = SteadyState::find;
  without_stream.stream_of = [](auto&&...) { return std::optional<EndlessStream>(); };
  EXPECT_FALSE(is_streamed("schedule: {name: 1f1b-rr, stages: 4, microbatches: 16}", without_stream))
      << "the run's own rate is read off its spans";
}

TEST(StreamedRun, SaysWhyALongPassIsRefused) {
  const std::string schedule = "schedule: {name: 1f1b, stages: 4096, microbatches: 131072";
  const auto refusal = [&](const std::string& more, const SimulateOptions& options) {
    const auto result = simulate_scenario(parsed(schedule + more + "}"), options);
    return result ? "not refused" : result.error().message;
  };
  EXPECT_THAT(refusal(", blocking: true", kFigures), testing::HasSubstr("blocking channels"));
  EXPECT_THAT(refusal("", {}), testing::HasSubstr("leave out --timeline"));
  const auto weighing =
      simulate_scenario(parsed("schedule: {name: zb-v, stages: 4096, microbatches: 131072}"), kFigures);
  ASSERT_FALSE(weighing);
  EXPECT_THAT(weighing.error().message, testing::HasSubstr("weighs what stages cost cannot be streamed"));
}

}  // namespace
}  // namespace penstock
