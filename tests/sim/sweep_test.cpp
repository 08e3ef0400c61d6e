// Tests sweeps, which simulate all points of K, v, M and schedules. The last tests are about the search for
// the largest value that fits, which simulates only some values.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include "report/result/sweep_table.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/choose/largest_value.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/sweep/sweep.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

Scenario sweep_scenario(const std::string& text) {
  auto loaded = parse_scenario(text, "sweep.yaml", ".");
  EXPECT_TRUE(loaded) << loaded.error();
  return *loaded;
}

constexpr const char* kOverheadBound =
    "model: {stages: {forward: 16 ms, backward: 32 ms, overhead: 500 us, weights: 1 MB, kept: 6 MB}}\n"
    "schedule: {name: gpipe, stages: 4, microbatches: 1}\n"
    "training: {micro_batch_size: 48}\n";

TEST(Sweep, ListsEveryPointBySchedulesThenStagesThenMicrobatches) {
  const Sweep swept = sweep(sweep_scenario(kOverheadBound),
                            {.schedules = {"naive", "gpipe"}, .stages = {1, 2}, .microbatches = {1, 2, 3}});
  std::string order;
  for (const SweepRow& row : swept.rows)
    order += row.schedule.substr(0, 1) + std::to_string(row.stages) + std::to_string(row.microbatches) + " ";
  EXPECT_EQ(order, "n11 n12 n13 n21 n22 n23 g11 g12 g13 g21 g22 g23 ");
}

TEST(Sweep, AProgramIsOnePointOfItsOwnShape) {
  Scenario scenario = sweep_scenario("{}");
  scenario.program = *generate("zb-v", {.stages = 4, .microbatches = 8});
  scenario.program->schedule = "ours";
  const Sweep swept = sweep(scenario, {.schedules = {}, .stages = {}, .microbatches = {}});
  ASSERT_EQ(swept.rows.size(), 1U);
  const SweepRow& row = swept.rows[0];
  EXPECT_EQ(row.status, SweepStatus::ok) << row.reason;
  EXPECT_EQ(row.schedule, "ours");
  EXPECT_EQ(row.stages, 4);
  EXPECT_EQ(row.virtual_stages, 2);
  EXPECT_EQ(row.microbatches, 8);
  EXPECT_EQ(row.closed_form_bubble, std::nullopt) << "its order is its own";
}

TEST(Sweep, AProgramOfAFileHasTheFiguresOfItsSchedule) {
  const std::string costs =
      "model: {stages: {forward: 2 ms, backward: 5 ms, activation: 4 MB, kept: 6 MB}}\n";
  const Scenario scenario =
      sweep_scenario(costs + "cluster: {preset: uniform, devices: 4, bandwidth: 8 GB/s}");
  std::map<std::string, Program> programs;
  const std::vector<std::string> schedules = {"gpipe", "1f1b", "zb-h1", "interleaved", "eager-1f1b"};
  std::vector<std::string> entries = schedules;
  for (const std::string& schedule : schedules) {
    Program program = *generate(
        schedule, {.stages = 4, .microbatches = 8, .virtual_stages = schedule == "interleaved" ? 2 : 1});
    program.schedule = "custom";
    programs.emplace(schedule + ".psched", std::move(program));
    entries.push_back(schedule + ".psched");
  }
  const Sweep swept =
      sweep(scenario, {.schedules = entries, .programs = programs, .stages = {4}, .microbatches = {8}});
  ASSERT_EQ(swept.rows.size(), 2 * schedules.size());
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    SweepRow expected = swept.rows[i];
    const SweepRow& row = swept.rows[i + schedules.size()];
    EXPECT_EQ(row.schedule, schedules[i] + ".psched");
    expected.schedule = row.schedule;
    expected.closed_form_bubble.reset();  // the order of a file is its own
    EXPECT_EQ(row, expected) << row.reason;
  }
}

TEST(Sweep, AProgramOfAFileIsSkippedWhereItDoesNotFit) {
  const std::map<std::string, Program> programs = {
      {"mine.psched", *generate("1f1b", {.stages = 4, .microbatches = 8})}};
  const auto reasons = [&](const std::string& text, std::vector<std::int32_t> stages,
                           std::vector<std::int32_t> microbatches) {
    std::vector<std::string> all;
    const SweepGrid grid = {.schedules = {"gpipe", "mine.psched"},
                            .programs = programs,
                            .stages = std::move(stages),
                            .microbatches = std::move(microbatches)};
    for (const SweepRow& row : sweep(sweep_scenario(text), grid).rows) {
      if (row.schedule == "mine.psched") all.push_back(row.reason);
      EXPECT_EQ(row.status == SweepStatus::ok, row.reason.empty()) << row.schedule;
    }
    return all;
  };
  EXPECT_THAT(reasons("{}", {2, 4}, {4, 8}),
              testing::ElementsAre("the program has 4 ranks, and this point K = 2",
                                   "the program has 4 ranks, and this point K = 2",
                                   "the program has 8 microbatches, and this point M = 4", ""));
  EXPECT_THAT(reasons("schedule: {stages: 2, microbatches: 8}", {}, {}),
              testing::ElementsAre("the program has 4 ranks, and this point K = 2"));
  EXPECT_THAT(reasons("schedule: {stages: 4, microbatches: 8}", {}, {}), testing::ElementsAre(""));
  EXPECT_THAT(
      reasons("schedule: {stages: 4, microbatches: 8, checkpoint: always}", {}, {}),
      testing::ElementsAre("schedule.checkpoint of the scenario does not apply to the program of a file"));
  EXPECT_THAT(
      reasons("schedule: {stages: 4, microbatches: 8, data_parallel: 2}", {}, {}),
      testing::ElementsAre("schedule.data_parallel of the scenario does not apply to the program of a file"));
  EXPECT_THAT(
      reasons("schedule: {stages: 4, microbatches: 8, forward_only: true}", {}, {}),
      testing::ElementsAre("schedule.forward_only of the scenario does not apply to the program of a file"));
}

TEST(Sweep, HoldingTheGlobalBatchFindsTheBestNumberOfMicrobatches) {
  Scenario held = sweep_scenario(kOverheadBound);
  held.batch.micro_batch_size.reset();
  held.batch.global_batch_size = 48;
  const Sweep swept =
      sweep(held, {.schedules = {}, .stages = {}, .microbatches = {1, 2, 3, 4, 6, 8, 12, 16, 24, 48}});
  EXPECT_EQ(best_per_schedule(swept).at(0).microbatches, 12) << "M* = sqrt((K-1)W/o), W = 48 ms, o = 1 ms";
  for (const SweepRow& row : swept.rows) {
    EXPECT_EQ(row.throughput.samples_per_update, 48);
    EXPECT_EQ(row.micro_batch_size, 48.0 / row.microbatches);
  }
}

TEST(Sweep, ABatchThatDoesNotDivideIsSkippedWithAReason) {
  Scenario held = sweep_scenario(kOverheadBound);
  held.batch.micro_batch_size.reset();
  held.batch.global_batch_size = 48;
  const Sweep swept = sweep(held, {.schedules = {}, .stages = {}, .microbatches = {5}});
  EXPECT_EQ(swept.rows[0].status, SweepStatus::skipped);
  EXPECT_THAT(swept.rows[0].reason, testing::HasSubstr("global_batch_size 48"));
}

TEST(Sweep, APointThatDoesNotFitKeepsItsFigures) {
  Scenario tight =
      sweep_scenario(std::string(kOverheadBound) + "cluster: {preset: uniform, memory: 20 MB}\n");
  const Sweep swept = sweep(tight, {.schedules = {"gpipe", "1f1b"}, .stages = {2}, .microbatches = {2, 8}});
  EXPECT_EQ(swept.rows[0].status, SweepStatus::ok);
  EXPECT_EQ(swept.rows[1].status, SweepStatus::out_of_memory);
  EXPECT_GT(swept.rows[1].makespan_ns, 0);
  EXPECT_THAT(swept.rows[1].reason, testing::HasSubstr("rank 0"));
  EXPECT_EQ(swept.rows[3].status, SweepStatus::ok) << "1F1B holds two microbatches whatever M is";
}

// Both devices have 30 MB. The second stage holds twice as much as the first.
TEST(Sweep, NamesTheRankThatLacksMost) {
  const Scenario uneven = sweep_scenario(
      "model: {stages: {forward: 1 ms, backward: 2 ms, kept: [20 MB, 40 MB]}}\n"
      "cluster: {preset: uniform, memory: 30 MB}\nschedule: {name: gpipe, stages: 2, microbatches: 2}\n");
  const Sweep swept = sweep(uneven, {});
  EXPECT_EQ(swept.rows[0].status, SweepStatus::out_of_memory);
  EXPECT_EQ(swept.rows[0].reason, "rank 1 needs 76.29 MiB, its device has 28.61 MiB");
}

// The first stage waits for a backward before it has sent all activations for the warm-up of the second
// stage.
TEST(Sweep, ARowThatCannotRunSaysWhoWaitsForWhom) {
  const Scenario stuck = sweep_scenario(
      "schedule: {name: 1f1b-rr, stages: 2, replicas: [1, 4], microbatches: 8, warmup: [0, 1]}\n");
  const Sweep swept = sweep(stuck, {});
  EXPECT_EQ(swept.rows[0].status, SweepStatus::failed);
  EXPECT_THAT(
      swept.rows[0].reason,
      testing::HasSubstr("ranks wait for each other: rank 0 at position 1: 0B0 waits for 1B0; rank 1"));
}

TEST(Sweep, AProgramThatHangsKeepsItsShape) {
  auto stuck = load_scenario_or_program(source_path("scenarios/library/hangs-on-pair-channels.psched"));
  ASSERT_TRUE(stuck) << stuck.error();
  stuck->channels.model = ChannelModel::pair;
  const Sweep swept = sweep(*stuck, {});
  EXPECT_EQ(swept.rows[0].status, SweepStatus::failed);
  EXPECT_EQ(swept.rows[0].stages, 2);
  EXPECT_EQ(swept.rows[0].microbatches, 2);
}

TEST(Sweep, TheClosedFormIsTheSimulatedBubbleOnEqualStages) {
  const Sweep swept = sweep(
      sweep_scenario(kOverheadBound),
      {.schedules = {"naive", "gpipe", "1f1b", "interleaved"}, .stages = {1, 2, 4}, .microbatches = {4, 8}});
  for (const SweepRow& row : swept.rows) {
    ASSERT_TRUE(row.closed_form_bubble) << row.schedule;
    EXPECT_NEAR(row.bubble.idle_over_total, *row.closed_form_bubble, 1e-12)
        << row.schedule << " K=" << row.stages;
  }
}

TEST(Sweep, GivesEqualRowsOnAnyNumberOfThreads) {
  const SweepGrid grid{
      .schedules = {"gpipe", "1f1b", "1f1b-rr"}, .stages = {1, 2, 3}, .microbatches = {1, 2, 4, 8}};
  const Scenario base = sweep_scenario(kOverheadBound);
  const Sweep parallel = sweep(base, grid);
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  EXPECT_EQ(sweep(base, grid), parallel);
}

// Points share clusters and cached streams. The results must not depend on this.
TEST(Sweep, EveryRowIsThatOfItsPointAlone) {
  const Scenario base =
      sweep_scenario(std::string(kOverheadBound) + "cluster: {preset: uniform, devices: 4, memory: 30 MB}\n");
  const SweepGrid grid{
      .schedules = {"1f1b", "naive", "1f1b-rr"}, .stages = {2, 4}, .microbatches = {1, 2, 8, 16}};
  std::size_t row = 0;
  const Sweep swept = sweep(base, grid);
  for (const std::string& schedule : grid.schedules) {
    for (const std::int32_t stages : grid.stages) {
      for (const std::int32_t microbatches : grid.microbatches) {
        const Sweep alone =
            sweep(base, {.schedules = {schedule}, .stages = {stages}, .microbatches = {microbatches}});
        EXPECT_EQ(swept.rows[row++], alone.rows[0]) << schedule << " " << stages << " " << microbatches;
      }
    }
  }
}

TEST(Sweep, ReportsItsProgress) {
  std::atomic<std::size_t> calls = 0;
  sweep(sweep_scenario(kOverheadBound),
        {.schedules = {},
         .stages = {1, 2},
         .microbatches = {1, 2},
         .progress = [&](std::size_t, std::size_t total) { calls += total == 4 ? 1 : 0; }});
  EXPECT_EQ(calls, 4);
}

TEST(Sweep, AnAsynchronousScheduleTakesTheGlobalBatchAsItsMinibatch) {
  Scenario held = sweep_scenario(kOverheadBound);
  held.batch.micro_batch_size.reset();
  held.batch.global_batch_size = 48;
  const Sweep swept = sweep(held, {.schedules = {"1f1b-rr"}, .stages = {4}, .microbatches = {1, 16}});
  for (const SweepRow& row : swept.rows) {
    EXPECT_EQ(row.micro_batch_size, 48);
    ASSERT_TRUE(row.throughput.steady_samples_per_second);
    EXPECT_NEAR(*row.throughput.steady_samples_per_second, 48 / 0.049, 1e-9)
        << "a minibatch every f + b + two overheads";
  }
}

// With weights and gradients, one minibatch fits into 20 MB. The four minibatches of a full pipeline do not.
TEST(Sweep, AnAsynchronousRowFitsWhereItsEndlessStreamDoes) {
  const Scenario tight =
      sweep_scenario(std::string(kOverheadBound) + "cluster: {preset: uniform, memory: 20 MB}\n");
  const Sweep swept = sweep(tight, {.schedules = {"1f1b-rr"}, .stages = {4}, .microbatches = {1, 16}});
  for (const SweepRow& row : swept.rows) {
    EXPECT_EQ(row.status, SweepStatus::out_of_memory);
    EXPECT_EQ(row.reason, "the stream's steady state needs 27.66 MiB on rank 0, its device has 19.07 MiB");
    EXPECT_EQ(row.peak_bytes, swept.rows[1].peak_bytes);
    EXPECT_EQ(row.throughput.steady_samples_per_second, swept.rows[1].throughput.steady_samples_per_second);
  }
  EXPECT_LT(swept.rows[0].makespan_ns, swept.rows[1].makespan_ns) << "the run is still that of M";
}

TEST(Sweep, AStatedMicrobatchHoldsAgainstTheScenariosGlobalBatch) {
  Scenario with_global = sweep_scenario(kOverheadBound);
  with_global.batch.micro_batch_size.reset();
  with_global.batch.global_batch_size = 48;
  SweepGrid grid{.schedules = {"gpipe", "1f1b-rr"}, .microbatches = {2, 5}};
  grid.batch.micro_batch_size = 8;
  for (const SweepRow& row : sweep(with_global, grid).rows) {
    EXPECT_EQ(row.status, SweepStatus::ok) << row.reason;
    EXPECT_EQ(row.micro_batch_size, 8);
  }
}

TEST(Sweep, AStatedGlobalBatchHoldsAgainstTheScenariosMicrobatch) {
  SweepGrid grid{.schedules = {"gpipe"}, .microbatches = {2, 6}};
  grid.batch.global_batch_size = 24;
  for (const SweepRow& row : sweep(sweep_scenario(kOverheadBound), grid).rows)
    EXPECT_EQ(row.throughput.samples_per_update, 24);
}

TEST(Sweep, TwoStatedSizesMustAgreeWithEveryM) {
  SweepGrid grid{.schedules = {"gpipe"}, .microbatches = {2, 3}};
  grid.batch.micro_batch_size = 8;
  grid.batch.global_batch_size = 24;
  const Sweep swept = sweep(sweep_scenario(kOverheadBound), grid);
  EXPECT_EQ(swept.rows[0].status, SweepStatus::skipped);
  EXPECT_THAT(swept.rows[0].reason, testing::HasSubstr("all three must agree"));
  EXPECT_EQ(swept.rows[1].status, SweepStatus::ok);
}

TEST(Sweep, AnAsynchronousScheduleTakesTheLargerOfBothSizesOfAFile) {
  Scenario both = sweep_scenario(kOverheadBound);
  both.batch.global_batch_size = 96;
  both.batch.microbatches = 2;
  EXPECT_EQ(sweep(both, {.schedules = {"1f1b-rr"}}).rows[0].micro_batch_size, 96);
}

TEST(Sweep, ShowsTheChunksThatARuleFixes) {
  const Sweep swept = sweep(Scenario{}, {.schedules = {"1f1b", "zb-v", "dualpipe-v", "v-half"},
                                         .stages = {2},
                                         .virtual_stages = {1, 2, 4},
                                         .microbatches = {8}});
  std::string shown;
  for (const SweepRow& row : swept.rows) {
    EXPECT_EQ(row.status, SweepStatus::ok) << row.reason;
    shown += row.schedule + " " + std::to_string(row.virtual_stages) + ", ";
  }
  EXPECT_EQ(shown, "1f1b 1, zb-v 2, dualpipe-v 2, v-half 2, ");
}

TEST(Sweep, RunsEachVirtualStageCountWhereTheScheduleTakesIt) {
  const Sweep swept = sweep(
      Scenario{},
      {.schedules = {"1f1b", "interleaved"}, .stages = {4}, .virtual_stages = {1, 2}, .microbatches = {8}});
  ASSERT_EQ(swept.rows.size(), 3U);
  EXPECT_EQ(swept.rows[0].makespan_ns, 33'000'000) << "(8 + 3) x 3 ms";
  EXPECT_EQ(swept.rows[1].makespan_ns, 33'000'000) << "one chunk a rank is 1F1B";
  EXPECT_EQ(swept.rows[2].makespan_ns, 28'500'000) << "(2 x 8 + 3) x 1.5 ms";
  EXPECT_THAT(swept.notes, testing::ElementsAre(testing::StartsWith("v is 1: interleaved")));
}

// The model has the same size for all schedules. With v = 2, a chunk is half of a rank's share.
TEST(Sweep, ComparesSchedulesOverOneModelWhereNoneIsGiven) {
  const SweepGrid grid = {.schedules = {"1f1b", "interleaved", "zb-v"}, .stages = {4}, .microbatches = {8}};
  const Sweep swept = sweep(Scenario{}, grid);
  ASSERT_EQ(swept.rows.size(), 3U);
  EXPECT_EQ(swept.rows[0].makespan_ns, 33'000'000);
  EXPECT_EQ(swept.rows[1].makespan_ns, 28'500'000);
  EXPECT_EQ(swept.rows[2].makespan_ns, 25'500'000);
  EXPECT_EQ(swept.rows[0].peak_bytes, 4 * kActivationParts);
  EXPECT_EQ(swept.rows[1].peak_bytes, 11 * kActivationParts / 2);
  EXPECT_EQ(swept.rows[2].peak_bytes, 4 * kActivationParts);
  EXPECT_THAT(sweep_csv(swept), testing::HasSubstr(",5.5,"));
  EXPECT_THAT(swept.notes, testing::ElementsAre("v is not given: interleaved takes 2 chunks a rank "
                                                "(--virtual-stages)"));
}

TEST(Sweep, OfUnitsThatAreStagesSaysThatMoreOfThemAreMoreWork) {
  Scenario by_stage;
  by_stage.model = UnitCosts{.unit = CostUnit::stage};
  const Sweep swept = sweep(by_stage, {.schedules = {"interleaved"}, .stages = {4}, .microbatches = {8}});
  EXPECT_EQ(swept.rows.at(0).makespan_ns, 57'000'000);
  EXPECT_THAT(swept.notes,
              testing::Contains("each of the K*v stages takes F = 1 ms a sample (--unit stage), so "
                                "v = 2 is twice the work of v = 1"));
}

TEST(Sweep, ChunkedPrefillHasNoBackwardsAndKeepsItsName) {
  const Scenario scenario = sweep_scenario(
      "model: {stages: {forward: 1 ms, backward: 2 ms}}\n"
      "schedule: {name: 1f1b, stages: 2, microbatches: 1, slices: 4}\n");
  const Sweep swept = sweep(scenario, {.schedules = {"chunked_prefill", "seq-1f1b"}});
  ASSERT_EQ(swept.rows.size(), 2U);
  EXPECT_EQ(swept.rows[0].schedule, "chunked-prefill");
  EXPECT_EQ(swept.rows[0].makespan_ns, 1'250'000);
  EXPECT_FALSE(swept.rows[0].closed_form_bubble);
  EXPECT_EQ(swept.rows[1].schedule, "seq-1f1b");
  EXPECT_EQ(swept.rows[1].makespan_ns, 3'750'000);
}

TEST(Sweep, AnOptionOfTheFileThatAScheduleDoesNotTakeIsAReason) {
  const Sweep swept = sweep(sweep_scenario("schedule: {name: 1f1b-rr, replicas: [2, 1], microbatches: 8}\n"),
                            {.schedules = {"1f1b-rr", "zb-h2", "dualpipe"}});
  EXPECT_EQ(swept.rows[0].status, SweepStatus::ok);
  EXPECT_EQ(swept.rows[1].status, SweepStatus::skipped);
  EXPECT_EQ(swept.rows[1].reason, "replicas: zb-h2 does not take it; it takes checkpoint, recompute");
  EXPECT_EQ(swept.rows[2].reason, "replicas: dualpipe does not take it; it takes no such option");
}

TEST(Sweep, NotesOnceWhatItsExperimentsNote) {
  Scenario held = sweep_scenario(kOverheadBound);
  held.notes = {"of the file"};
  held.batch.own_micro_batch_size = 12;
  const Sweep swept = sweep(held, {.schedules = {"gpipe", "1f1b"}, .microbatches = {1, 2, 4}});
  EXPECT_EQ(swept.notes,
            (std::vector<std::string>{"of the file",
                                      "the model's times and bytes hold for 12 samples a microbatch and are "
                                      "scaled linearly to the microbatch's size, overhead apart"}));
}

TEST(Sweep, WithoutAModelWorkGrowsWithTheMicrobatch) {
  Scenario unit;
  unit.shape.stages = 4;
  unit.batch.global_batch_size = 24;
  const Sweep swept = sweep(unit, {.schedules = {"gpipe"}, .microbatches = {1, 8}});
  EXPECT_EQ(swept.rows[0].makespan_ns, 4 * 24 * 3'000'000LL);
  EXPECT_EQ(swept.rows[1].makespan_ns, (8 + 3) * 3 * 3'000'000LL);
  ASSERT_EQ(swept.notes.size(), 1U);
  EXPECT_THAT(swept.notes[0], testing::HasSubstr("B = 2 ms for one sample"));
}

// --- sweeps that go on ------------------------------------------------------------------------------------

const SweepGrid kSmallGrid = {.schedules = {"gpipe", "interleaved"},
                              .stages = {1, 2, 3},
                              .virtual_stages = {1, 2},
                              .microbatches = {1, 2, 5}};

/// Returns all points that a sweep passes to SweepGrid::finished.
std::map<std::size_t, SweepPoint> finished_points(const Scenario& base, SweepGrid grid) {
  std::map<std::size_t, SweepPoint> points;
  std::mutex mutex;
  grid.finished = [&](std::size_t number, const SweepPoint& point) {
    const std::lock_guard lock(mutex);
    points.emplace(number, point);
  };
  sweep(base, grid);
  return points;
}

TEST(Sweep, CountsItsPointsBeforeItMakesThem) {
  const Scenario base = sweep_scenario(kOverheadBound);
  EXPECT_EQ(point_count(base, kSmallGrid), sweep(base, kSmallGrid).rows.size());
  EXPECT_EQ(point_count(base, {}), 1U);
  const std::vector<std::int32_t> many(100'000, 1);
  EXPECT_EQ(point_count(base, {.stages = many, .microbatches = many}), 10'000'000'000U);
}

// For any set of known points, the result equals that of a complete sweep.
TEST(Sweep, GoesOnFromAnyPartOfItsPoints) {
  const Scenario base = sweep_scenario(kOverheadBound);
  const Sweep whole = sweep(base, kSmallGrid);
  const auto points = finished_points(base, kSmallGrid);
  ASSERT_EQ(points.size(), whole.rows.size());
  for (std::size_t step = 1; step <= points.size(); ++step) {
    SweepGrid grid = kSmallGrid;
    for (const auto& [number, point] : points) {
      if (number % step == 0) grid.known.emplace(number, point);
    }
    ASSERT_TRUE(check_known(base, grid)) << check_known(base, grid).error();
    std::atomic<std::size_t> simulated = 0;
    grid.finished = [&](std::size_t, const SweepPoint&) { ++simulated; };
    EXPECT_EQ(sweep(base, grid), whole);
    EXPECT_EQ(simulated, points.size() - grid.known.size());
  }
}

TEST(Sweep, PointsSurviveTheirLineOfJson) {
  Scenario tight =
      sweep_scenario(std::string(kOverheadBound) + "cluster: {preset: uniform, memory: 20 MB}\n");
  tight.batch.micro_batch_size.reset();
  tight.batch.global_batch_size = 48;  // 5 does not divide it
  for (const Scenario& base : {tight, sweep_scenario("schedule: {name: gpipe, stages: 2, microbatches: 1}\n"),
                               sweep_scenario("model: {stages: {forward: 0 ns, backward: 0 ns}}\n"
                                              "schedule: {name: gpipe, stages: 2, microbatches: 1}\n")}) {
    for (const auto& [number, point] : finished_points(base, kSmallGrid)) {
      const auto again = sweep_point_of_json(sweep_point_json(number, point));
      ASSERT_TRUE(again) << again.error();
      EXPECT_EQ(again->first, number);
      EXPECT_EQ(again->second, point) << sweep_point_json(number, point);
    }
  }
}

TEST(Sweep, PointsOfAnotherSweepAreRefused) {
  const Scenario base = sweep_scenario(kOverheadBound);
  SweepGrid grid = kSmallGrid;
  grid.known = finished_points(base, kSmallGrid);
  grid.stages = {2, 3, 4};
  EXPECT_EQ(check_known(base, grid).error(), "point 0 (gpipe, K = 1, v = 1, M = 1) is none of this sweep");
  grid.stages = kSmallGrid.stages;
  const Scenario faster = sweep_scenario(
      "model: {stages: {forward: 15 ms, backward: 32 ms, overhead: 500 us, weights: 1 MB, kept: 6 MB}}\n"
      "schedule: {name: gpipe, stages: 4, microbatches: 1}\n"
      "training: {micro_batch_size: 48}\n");
  EXPECT_THAT(check_known(faster, grid).error(), testing::HasSubstr("has other figures now"));
  grid.known.emplace(1000, grid.known.at(0));
  EXPECT_THAT(check_known(base, grid).error(), testing::StartsWith("point 1000"));
}

TEST(Sweep, OneThatIsStoppedKeepsWhatIsDone) {
  const Scenario base = sweep_scenario(kOverheadBound);
  const tbb::global_control one_thread(tbb::global_control::max_allowed_parallelism, 1);
  std::size_t done = 0;
  SweepGrid grid = kSmallGrid;
  grid.finished = [&](std::size_t, const SweepPoint&) { ++done; };
  grid.stopped = [&] { return done == 4; };
  const Sweep part = sweep(base, grid);
  EXPECT_EQ(part.rows.size(), 4U);
  EXPECT_EQ(part.notes.back(), "interrupted: 4 of 27 points are done");
}

// Compares the search for the largest value that fits with a search that tries every value.

/// Returns a tried value that needs this number of bytes. The device has 100 bytes.
TriedValue needs(std::int64_t value, Bytes bytes) {
  TriedValue tried{.value = value};
  tried.peak_bytes = bytes;
  tried.usable_bytes = 100;
  return tried;
}

TriedValue refused(std::int64_t value) { return {.value = value, .refusal = "no"}; }

TEST(LargestValue, IsWhatTryingEveryValueFinds) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto least = static_cast<std::int64_t>(random() % 5 + 1);
    const ValueRange range{.least = least,
                           .most = least + static_cast<std::int64_t>(random() % 60),
                           .step = static_cast<std::int64_t>(random() % 3 + 1)};
    const auto first = static_cast<std::int64_t>(random() % 30);
    const auto slope = static_cast<Bytes>(random() % 20 + 1);
    std::set<std::int64_t> tried;
    const auto probe = [&](std::int64_t value) {
      EXPECT_TRUE(tried.insert(value).second) << "tried twice";
      return value < first ? refused(value) : needs(value, slope * value);
    };
    std::optional<std::int64_t> expected;
    for (std::int64_t value = range.least; value <= range.most; value += range.step)
      if (value >= first && slope * value <= 100) expected = value;
    const LargestValue found = largest_value(range, probe);
    ASSERT_EQ(found.largest.has_value(), expected.has_value()) << round;
    if (expected) {
      EXPECT_EQ(found.largest->value, *expected) << round;
      if (found.next) {
        EXPECT_EQ(found.next->value, *expected + range.step) << round;
      }
    }
    EXPECT_TRUE(found.grows());
  }
}

TEST(LargestValue, TriesFewOfAMillionValues) {
  int tried = 0;
  const LargestValue found = largest_value({.least = 1, .most = 1'000'000}, [&](std::int64_t value) {
    ++tried;
    return needs(value, value > 765'432 ? 101 : 1);
  });
  EXPECT_EQ(found.largest->value, 765'432);
  EXPECT_LE(tried, 42);
}

TEST(LargestValue, HasNoNextValueWhereTheWholeRangeFits) {
  const LargestValue found =
      largest_value({.least = 3, .most = 50, .step = 10}, [](std::int64_t value) { return needs(value, 1); });
  EXPECT_EQ(found.largest->value, 43);
  EXPECT_FALSE(found.next);
}

TEST(LargestValue, IsAbsentWhereTheSmallestDoesNotFit) {
  const LargestValue found =
      largest_value({.least = 1, .most = 50}, [](std::int64_t value) { return needs(value, 200); });
  EXPECT_FALSE(found.largest);
  EXPECT_EQ(found.next->value, 1);
}

TEST(LargestValue, IsAbsentWhereEveryValueIsRefused) {
  const LargestValue found = largest_value({.least = 1, .most = 50}, refused);
  EXPECT_FALSE(found.largest);
  EXPECT_EQ(found.next->refusal, "no");
}

TEST(LargestValue, EndsAtARefusalAboveWhatFits) {
  const LargestValue found = largest_value({.least = 1, .most = 500}, [](std::int64_t value) {
    return value > 80 ? refused(value) : needs(value, 1);
  });
  EXPECT_EQ(found.largest->value, 80);
  EXPECT_EQ(found.next->refusal, "no");
}

// Values that do not divide 48 are refused, and 100 bytes hold 16 of them.
TEST(LargestValue, GoesOnAboveValuesThatAreRefused) {
  const LargestValue found = largest_value({.least = 1, .most = 1000}, [](std::int64_t value) {
    return 48 % value != 0 ? refused(value) : needs(value, 6 * value);
  });
  EXPECT_EQ(found.largest->value, 16);
  EXPECT_EQ(found.next->value, 24) << "the next value that has a prediction";
  EXPECT_FALSE(found.next->fits());
}

// Memory shrinks with the value, as with the degree of tensor parallelism.
TEST(LargestValue, IsFoundWhereOnlyLargeValuesFit) {
  const LargestValue found =
      largest_value({.least = 1, .most = 8}, [](std::int64_t value) { return needs(value, 640 / value); });
  EXPECT_EQ(found.largest->value, 8);
  EXPECT_FALSE(found.next);
  EXPECT_FALSE(found.grows());
}

TEST(LargestValue, SaysThatMemoryDidNotGrow) {
  const LargestValue found = largest_value(
      {.least = 1, .most = 64}, [](std::int64_t value) { return needs(value, value == 4 ? 90 : value); });
  EXPECT_FALSE(found.grows());
}

}  // namespace
}  // namespace penstock
