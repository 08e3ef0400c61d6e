// A sweep's row is timed on a tape that turns have written, without a lowered program: it says what the run
// of that program says.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

Scenario row_scenario(const std::string& text) {
  auto loaded = parse_scenario(text, "row.yaml", ".");
  EXPECT_TRUE(loaded) << loaded.error();
  return *loaded;
}

const SimulateOptions kRow{
    .memory = {.samples = false}, .timeline = TimelineKept::none, .figures = WantedFigures::of_rows};
const SimulateOptions kRun{.memory = {.samples = false}};  // from its spans

/// Holds a row against the run of the same scenario; false where it is not timed without lists.
bool agrees(const Scenario& scenario) {
  const auto plan = planned(scenario, kRow);
  if (!plan || plan->engine != RunEngine::turns) return false;
  const auto row = predict(scenario, kRow);
  const auto run = predict_stored(scenario, kRun);
  EXPECT_EQ(row.has_value(), run.has_value());
  if (!row || !run) return true;
  const Result& made = row->result;
  const Result& expected = run->result;
  EXPECT_EQ(made.makespan_ns, expected.makespan_ns);
  EXPECT_EQ(made.bubble, expected.bubble);
  EXPECT_EQ(made.throughput, expected.throughput) << "the steady rate, too";
  EXPECT_EQ(made.engine, expected.engine);
  EXPECT_EQ(made.link_sharing, expected.link_sharing);
  EXPECT_EQ(made.notes, expected.notes);
  EXPECT_EQ(made.ranks.size(), expected.ranks.size());
  for (std::size_t rank = 0; rank < made.ranks.size(); ++rank) {
    EXPECT_EQ(made.ranks[rank].busy_ns, expected.ranks[rank].busy_ns) << rank;
    EXPECT_EQ(made.ranks[rank].memory.peak_bytes, expected.ranks[rank].memory.peak_bytes) << rank;
    EXPECT_EQ(made.ranks[rank].memory.capacity, expected.ranks[rank].memory.capacity) << rank;
    EXPECT_EQ(made.ranks[rank].memory.unit, expected.ranks[rank].memory.unit) << rank;
  }
  return true;
}

/// Free links and a microbatch's activation as the unit; stages and edges with bytes; messages that hold
/// their links and arrive late; stages without a time; what I computes again for W; weights with clones.
const std::vector<std::string> kModels = {
    "",
    "model: {stages: {forward: 3 ms, backward: 7 ms, kept: 5 MB, weights: 2 MB, activation: 1 MB}}\n",
    "model: {stages: {forward: 3 ms, backward_input: 4 ms, backward_weight: 2 ms, kept: 6 MB, "
    "released_by_input: 2 MB, weights: 3 MB}}\ncluster: {preset: uniform, latency: 1 ms}\n",
    "model: {stages: {forward: 3 ms, backward: 5 ms, kept: 6 MB, transient: 9 MB, activation: 7 MB}}\n"
    "cluster: {preset: uniform, bandwidth: 1 GB/s, latency: 2 ms, memory: 30 MB}\n",
    "model: {stages: {forward: 0 ms, backward: 5 ms, kept: 6 MB}}\n",
    "model: {stages: {forward: 3 ms, backward: 6 ms, kept: 1 MB, recomputed: 5 MB, transient: 4 MB, "
    "recomputed_at_once: 3 MB, activation: 1 MB}}\ncluster: {preset: uniform, bandwidth: 4 GB/s}\n",
    "model: {stages: {forward: 3 ms, backward_input: 0 ms, backward_weight: 0 ms, kept: 1 MB, recomputed: 5 "
    "MB, "
    "step: 1 ms}}\n",
    "model: {stages: {forward: 3 ms, backward: 7 ms, kept: 5 MB, weights: 2 MB}}\n"
    "training: {weight_versions: cloned}\n"};

TEST(RowRun, SaysWhatTheRunOfItsProgramSaysOnEveryGenerator) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const std::int32_t stages : {1, 2, 3, 4, 8}) {
      for (const std::int32_t microbatches : {1, 2, 4, 6, 16}) {
        for (const std::string& model : kModels) {
          const Scenario point = row_scenario(model + "schedule: {name: " + std::string(schedule.name) +
                                              ", stages: " + std::to_string(stages) +
                                              ", microbatches: " + std::to_string(microbatches) +
                                              (takes_chunks(schedule) ? ", virtual_stages: 2" : "") + "}\n");
          SCOPED_TRACE(testing::Message()
                       << schedule.name << " K=" << stages << " M=" << microbatches << " " << model);
          compared += agrees(point) ? 1 : 0;
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
  EXPECT_GT(compared, 1500);
}

TEST(RowRun, KnowsRecomputationAndBarriers) {
  const std::string model =
      "model: {stages: {forward: 3 ms, backward: 5 ms, kept: 6 MB, activation: 1 MB}}\n";
  EXPECT_TRUE(agrees(
      row_scenario(model + "schedule: {name: 1f1b, stages: 4, microbatches: 8, checkpoint: always}\n")));
  EXPECT_TRUE(
      agrees(row_scenario(model + "schedule: {name: 1f1b, stages: 4, microbatches: 8, barrier: true}\n")));
}

TEST(RowRun, KnowsStagesWithoutALayer) {
  // The first stage takes no time, as one with an embedding alone; its STEP does.
  const std::string times =
      "model: {stages: {forward: [0 ms, 3 ms, 2 ms, 3 ms], backward_input: [0 ms, 4 ms, 3 ms, 3 ms], "
      "backward_weight: [0 ms, 2 ms, 3 ms, 2 ms], step: 1 ms, kept: [1 MB, 6 MB, 5 MB, 4 MB], "
      "transient: [8 MB, 1 MB, 2 MB, 3 MB], weights: 3 MB, activation: 2 MB}}\n"
      "cluster: {preset: uniform, bandwidth: 4 GB/s, latency: 1 ms}\n";
  for (const std::string_view schedule : {"gpipe", "1f1b", "zb-h1", "zb-h2", "eager-1f1b"}) {
    for (const std::int32_t microbatches : {1, 2, 5, 9}) {
      EXPECT_TRUE(agrees(row_scenario(times + "schedule: {name: " + std::string(schedule) +
                                      ", stages: 4, microbatches: " + std::to_string(microbatches) + "}\n")))
          << schedule << " " << microbatches;
    }
  }
  EXPECT_TRUE(agrees(row_scenario(times + "schedule: {name: zb-v, stages: 2, microbatches: 6}\n")));
  EXPECT_TRUE(agrees(row_scenario(
      times + "schedule: {name: interleaved, stages: 2, virtual_stages: 2, microbatches: 6}\n")));
}

}  // namespace
}  // namespace penstock
