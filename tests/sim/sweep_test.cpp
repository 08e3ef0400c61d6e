// Sweeps over K, M and schedules.

#include <atomic>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include "report/sweep.hpp"
#include "scenarios/load.hpp"
#include "sim/simulate.hpp"
#include "sim/sweep.hpp"

namespace penstock {
namespace {

Scenario scenario(const std::string& text) {
  auto loaded = parse_scenario(text, "sweep.yaml", ".");
  EXPECT_TRUE(loaded) << loaded.error();
  return *loaded;
}

constexpr const char* kOverheadBound =
    "model: {stages: {forward: 16 ms, backward: 32 ms, overhead: 500 us, weights: 1 MB, kept: 6 MB}}\n"
    "schedule: {name: gpipe, stages: 4, microbatches: 1}\n"
    "training: {micro_batch_size: 48}\n";

TEST(Sweep, ListsEveryPointBySchedulesThenStagesThenMicrobatches) {
  const Sweep swept = sweep(scenario(kOverheadBound), {.schedules = {"naive", "gpipe"},
                                                       .stages = {1, 2},
                                                       .microbatches = {1, 2, 3},
                                                       .held = HeldBatch::micro_batch});
  std::string order;
  for (const SweepRow& row : swept.rows)
    order += row.schedule.substr(0, 1) + std::to_string(row.stages) + std::to_string(row.microbatches) + " ";
  EXPECT_EQ(order, "n11 n12 n13 n21 n22 n23 g11 g12 g13 g21 g22 g23 ");
}

TEST(Sweep, HoldingTheGlobalBatchFindsTheBestNumberOfMicrobatches) {
  Scenario held = scenario(kOverheadBound);
  held.batch.micro_batch_size.reset();
  held.batch.global_batch_size = 48;
  EXPECT_EQ(default_held_batch(held), HeldBatch::global_batch);
  const Sweep swept =
      sweep(held, {.schedules = {}, .stages = {}, .microbatches = {1, 2, 3, 4, 6, 8, 12, 16, 24, 48}});
  EXPECT_EQ(best_per_schedule(swept).at(0).microbatches, 12) << "M* = sqrt((K-1)W/o), W = 48 ms, o = 1 ms";
  for (const SweepRow& row : swept.rows) {
    EXPECT_EQ(row.samples_per_update, 48);
    EXPECT_EQ(row.micro_batch_size, 48.0 / row.microbatches);
  }
}

TEST(Sweep, ABatchThatDoesNotDivideIsSkippedWithAReason) {
  Scenario held = scenario(kOverheadBound);
  held.batch.micro_batch_size.reset();
  held.batch.global_batch_size = 48;
  const Sweep swept = sweep(held, {.schedules = {}, .stages = {}, .microbatches = {5}});
  EXPECT_EQ(swept.rows[0].status, SweepStatus::skipped);
  EXPECT_THAT(swept.rows[0].reason, testing::HasSubstr("48"));
}

TEST(Sweep, APointThatDoesNotFitKeepsItsFigures) {
  Scenario tight = scenario(std::string(kOverheadBound) + "cluster: {preset: uniform, memory: 20 MB}\n");
  const Sweep swept = sweep(tight, {.schedules = {"gpipe", "1f1b"},
                                    .stages = {2},
                                    .microbatches = {2, 8},
                                    .held = HeldBatch::micro_batch});
  EXPECT_EQ(swept.rows[0].status, SweepStatus::ok);
  EXPECT_EQ(swept.rows[1].status, SweepStatus::out_of_memory);
  EXPECT_GT(swept.rows[1].makespan_ns, 0);
  EXPECT_THAT(swept.rows[1].reason, testing::HasSubstr("rank 0"));
  EXPECT_EQ(swept.rows[3].status, SweepStatus::ok) << "1F1B holds two microbatches whatever M is";
}

TEST(Sweep, TheClosedFormIsTheSimulatedBubbleOnEqualStages) {
  const Sweep swept = sweep(scenario(kOverheadBound), {.schedules = {"naive", "gpipe", "1f1b", "interleaved"},
                                                       .stages = {1, 2, 4},
                                                       .microbatches = {4, 8},
                                                       .held = HeldBatch::micro_batch});
  for (const SweepRow& row : swept.rows) {
    ASSERT_TRUE(row.closed_form_bubble) << row.schedule;
    EXPECT_NEAR(row.bubble.idle_over_total, *row.closed_form_bubble, 1e-12)
        << row.schedule << " K=" << row.stages;
  }
}

TEST(Sweep, GivesEqualRowsOnAnyNumberOfThreads) {
  const SweepGrid grid{.schedules = {"gpipe", "1f1b", "1f1b-rr"},
                       .stages = {1, 2, 3},
                       .microbatches = {1, 2, 4, 8},
                       .held = HeldBatch::micro_batch};
  const Scenario base = scenario(kOverheadBound);
  const Sweep parallel = sweep(base, grid);
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  EXPECT_EQ(sweep(base, grid), parallel);
}

TEST(Sweep, ReportsItsProgress) {
  std::atomic<std::size_t> calls = 0;
  sweep(scenario(kOverheadBound),
        {.schedules = {},
         .stages = {1, 2},
         .microbatches = {1, 2},
         .held = HeldBatch::micro_batch,
         .progress = [&](std::size_t, std::size_t total) { calls += total == 4 ? 1 : 0; }});
  EXPECT_EQ(calls, 4);
}

TEST(Sweep, AnAsynchronousScheduleTakesTheGlobalBatchAsItsMinibatch) {
  Scenario held = scenario(kOverheadBound);
  held.batch.micro_batch_size.reset();
  held.batch.global_batch_size = 48;
  const Sweep swept = sweep(held, {.schedules = {"1f1b-rr"}, .stages = {4}, .microbatches = {1, 16}});
  for (const SweepRow& row : swept.rows) {
    EXPECT_EQ(row.micro_batch_size, 48);
    ASSERT_TRUE(row.steady_samples_per_second);
    EXPECT_NEAR(*row.steady_samples_per_second, 48 / 0.049, 1e-9)
        << "a minibatch every f + b + two overheads";
  }
}

// One minibatch fits into 20 MB beside weights and gradients, the four of a full pipeline do not.
TEST(Sweep, AnAsynchronousStreamThatWouldNotFitHasNoSteadyRate) {
  Scenario tight = scenario(std::string(kOverheadBound) + "cluster: {preset: uniform, memory: 20 MB}\n");
  const Sweep swept = sweep(
      tight,
      {.schedules = {"1f1b-rr"}, .stages = {4}, .microbatches = {1, 16}, .held = HeldBatch::micro_batch});
  EXPECT_EQ(swept.rows[0].status, SweepStatus::ok);
  EXPECT_FALSE(swept.rows[0].steady_samples_per_second);
  EXPECT_EQ(swept.rows[1].status, SweepStatus::out_of_memory);
}

}  // namespace
}  // namespace penstock
