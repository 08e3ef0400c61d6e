// A run that turns have placed straight into a tape is the run of its stored lists: every figure, span,
// sample of memory and note, and the digest.

#include "sim/runs/turn_run.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/endless_stream.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

Scenario turn_scenario(const std::string& text) {
  auto loaded = parse_scenario(text, "turns.yaml", ".");
  EXPECT_TRUE(loaded) << loaded.error();
  return *loaded;
}

/// Holds a run by turns against the stored one; false where there is none.
bool agrees(const Scenario& scenario, const SimulateOptions& options) {
  const auto plan = planned(scenario, options);
  if (!plan || plan->engine != RunEngine::turns) return false;
  const auto run = predict(scenario, options);
  EXPECT_TRUE(run) << run.error().message;
  if (!run) return true;
  const Result* const result = &run->result;
  const auto stored = predict_stored(scenario, options);
  EXPECT_TRUE(stored) << stored.error().message;
  if (!stored) return true;
  EXPECT_EQ(result->program.digest, stored->result.program.digest);
  EXPECT_EQ(result->throughput, stored->result.throughput);
  EXPECT_EQ(result->timeline, stored->result.timeline);
  EXPECT_TRUE(*result == stored->result);
  EXPECT_EQ(run->stream.has_value(), stored->stream.has_value());
  if (run->stream && stored->stream) {
    EXPECT_EQ(run->stream->memories, stored->stream->memories);
  }
  return true;
}

/// Free links and a microbatch's activation as the unit; messages that hold their links and arrive late;
/// stages without a time; weights with clones.
const std::vector<std::string> kTurnModels = {
    "",
    "model: {stages: {forward: 3 ms, backward: 5 ms, kept: 6 MB, transient: 9 MB, activation: 7 MB}}\n"
    "cluster: {preset: uniform, bandwidth: 1 GB/s, latency: 2 ms, memory: 30 MB}\n",
    "model: {stages: {forward: 0 ms, backward: 5 ms, kept: 6 MB, activation: 1 MB}}\n",
    "model: {stages: {forward: 3 ms, backward: 6 ms, kept: 1 MB, recomputed: 5 MB, transient: 4 MB, "
    "recomputed_at_once: 3 MB}}\n",
    "model: {stages: {forward: 3 ms, backward: 7 ms, kept: 5 MB, weights: 2 MB}}\n"
    "training: {weight_versions: cloned}\n"};

TEST(TurnRun, SaysWhatAStoredRunSaysOfEveryGenerator) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const char* const chunks = takes_chunks(schedule) ? ", virtual_stages: 2" : "";
    for (const int stages : {1, 2, 4}) {
      for (const int microbatches : {1, 3, 4, 9}) {
        for (const std::string& model : kTurnModels) {
          const std::string text = fmt::format("{}schedule: {{name: {}, stages: {}, microbatches: {}{}}}\n",
                                               model, schedule.name, stages, microbatches, chunks);
          SCOPED_TRACE(text);
          compared += agrees(turn_scenario(text), {}) ? 1 : 0;
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
  EXPECT_GT(compared, 600);
}

TEST(TurnRun, KnowsRecomputationAndBarriers) {
  const std::string model =
      "model: {stages: {forward: 3 ms, backward: 5 ms, kept: 6 MB, activation: 1 MB}}\n";
  const std::string shape = "schedule: {name: 1f1b, stages: 4, microbatches: 8";
  EXPECT_TRUE(agrees(turn_scenario(model + shape + ", checkpoint: always}\n"), {}));
  EXPECT_TRUE(agrees(turn_scenario(model + shape + ", barrier: true}\n"), {}));
}

TEST(TurnRun, GivesWhatIsAskedForAndNoMore) {
  const Scenario scenario = turn_scenario("schedule: {name: zb-h1, stages: 4, microbatches: 8}\n");
  EXPECT_TRUE(agrees(scenario, {.memory = {.samples = false}}));
  EXPECT_TRUE(agrees(scenario, {.memory = {}, .steady = SteadyState::skip, .digest = ProgramDigest::skip}));
  EXPECT_TRUE(
      agrees(scenario, {.engine = Engine::critical_path, .memory = {}, .timeline = TimelineKept::none}));
}

TEST(TurnRun, AStreamThatSaysNoRateIsStored) {
  const Scenario scenario = turn_scenario("schedule: {name: 1f1b-rr, stages: 2, microbatches: 64}\n");
  SimulateOptions options;
  EXPECT_EQ(planned(scenario, options)->engine, RunEngine::turns);
  options.stream_of = [](auto&&...) { return std::optional<EndlessStream>(); };
  EXPECT_EQ(planned(scenario, options)->engine, RunEngine::tape) << "whose own microbatches say one";
  const auto stored = predict(scenario, options);
  ASSERT_TRUE(stored);
  EXPECT_GT(stored->result.throughput.steady_samples_per_second.value_or(0), 0);
}

TEST(TurnRun, SaysThatItsTurnsStall) {
  Experiment stalling =
      prepare(turn_scenario("schedule: {name: gpipe, stages: 2, microbatches: 2}\n"), ProgramForm::lists)
          .value();
  // Rank 0 now waits for a gradient before it has sent the activation that leads to it.
  std::vector<Action>& list = stalling.program.ranks.front();
  std::ranges::reverse(list);
  const auto run = turn_run(stalling, {}, std::nullopt);
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().message, "ranks wait for each other");
}

}  // namespace
}  // namespace penstock
