// Tests properties of gpu_validation (bench/gpu) without a GPU: its messages take time, and it reports an
// error if they do not.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/gpu/validation_rows.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

const std::vector<std::string> kSchedules = {"gpipe", "1f1b", "interleaved", "zb-h1", "1f1b-rr"};

Experiment asked(const std::string& schedule, double bytes_per_second) {
  const Program program = *generate(
      schedule, {.stages = 4, .microbatches = 8, .virtual_stages = schedule == "interleaved" ? 2 : 1});
  return experiment_of(program, nominal_costs(program, GpuWorkload::occupy),
                       uniform_links(4, bytes_per_second, 0));
}

TEST(GpuValidation, EveryMessageHasTheBytesThatItIsToHave) {
  for (const std::string& schedule : kSchedules) {
    const Experiment experiment = asked(schedule, 25e9);
    const EdgeNumbers edges(experiment.program);
    for (const std::vector<Action>& list : experiment.program.ranks) {
      for (const Action& action : list) {
        if (!is_transfer(action.kind)) continue;
        EXPECT_EQ(transfer_bytes(experiment.costs, edges, action), kNominalMessage)
            << schedule << " " << to_text(action);
      }
    }
  }
}

TEST(GpuValidation, SlowerLinksMakeEveryScheduleSlower) {
  for (const std::string& schedule : kSchedules)
    EXPECT_GT(makespan_ns(asked(schedule, 25e9)), makespan_ns(asked(schedule, 250e9))) << schedule;
}

GpuRow row(GpuLinks links, Ns predicted_ns, Ns measured_ns) {
  return {
      .of = {.schedule = "1f1b", .link = links}, .predicted_ns = predicted_ns, .measured_ns = measured_ns};
}

TEST(GpuValidation, PacingThatCannotBeSeenFails) {
  const GpuRow fast = row(GpuLinks::fast, 10'000'000, 10'100'000);
  EXPECT_EQ(unseen_pacing({fast, row(GpuLinks::paced, 12'000'000, 12'200'000)}), "");
  EXPECT_EQ(
      unseen_pacing({row(GpuLinks::paced, 10'000'000, 12'200'000), fast}),
      "control failed: occupy, 1f1b K=2 M=4 is predicted to take 10.000 ms on fast links and 10.000 ms on "
      "paced ones, which must take longer");
  EXPECT_THAT(unseen_pacing({fast, row(GpuLinks::paced, 12'000'000, 10'100'000)}),
              testing::HasSubstr("is measured to take 10.100 ms"));
  EXPECT_THAT(unseen_pacing({fast, row(GpuLinks::paced, 12'000'000, 10'900'000)}),
              testing::HasSubstr("is measured to take 10.100 ms on fast links and 10.900 ms on paced ones"));
}

TEST(GpuValidation, ARowThatFailsIsInTheTableAndInNoFigure) {
  GpuRow failed = row(GpuLinks::paced, 10'000'000, 0);
  failed.failure = "rank 1, 1F3: \"late\"";
  const std::vector<GpuRow> rows = {row(GpuLinks::fast, 10'100'000, 10'000'000), failed};
  EXPECT_DOUBLE_EQ(mean_error(rows), 0.01);
  EXPECT_EQ(unseen_pacing(rows), "");
  EXPECT_THAT(table_of(rows, "a GPU", {.warmup = 1, .counted = 5}),
              testing::HasSubstr("| paced | 10.000 ms | failed: rank 1, 1F3: \"late\" | |\n"));
  EXPECT_THAT(csv_of(rows), testing::EndsWith(",paced,10000000,,,\"rank 1, 1F3: \"\"late\"\"\"\n"));
}

TEST(GpuValidation, RowsThatDifferInMoreThanLinksAreNoControl) {
  GpuRow other = row(GpuLinks::paced, 1, 1);
  other.of.microbatches = 8;
  EXPECT_EQ(unseen_pacing({row(GpuLinks::fast, 10, 10), other}), "");
}

}  // namespace
}  // namespace penstock
