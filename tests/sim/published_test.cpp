// PipeDream's figures as start and end times (SOSP'19, Figures 2, 3, 4 and 8; backward takes twice a forward,
// links are free), 0-based. Figure 8 draws no gradient reduction among the replicas.

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/result/metrics.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/period.hpp"
#include "sim/engines/steady_state.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

/// "F0@0-1 B0@10-12 ..." for every rank: forwards and backwards with their times in units of `unit_ns`.
std::vector<std::string> drawn(const Experiment& experiment, Ns unit_ns) {
  std::vector<std::string> rows(static_cast<std::size_t>(experiment.program.rank_count()));
  const auto timeline = critical_path(experiment);
  for (const Span& span : timeline->spans) {
    if (span.action.kind != ActionKind::forward && span.action.kind != ActionKind::backward) continue;
    std::string& row = rows[static_cast<std::size_t>(span.rank)];
    row += fmt::format("{}{}{}@{}-{}", row.empty() ? "" : " ", letters(span.action.kind),
                       span.action.microbatch, span.start_ns / unit_ns, span.end_ns / unit_ns);
  }
  return rows;
}

constexpr Ns kUnit = 1'000'000;
const UniformTimes kPaper{.forward_ns = kUnit, .backward_ns = 2 * kUnit};
using Rows = std::vector<std::string>;

TEST(PipeDreamFigure, TwoNaiveModelParallelism) {
  const Experiment experiment = uniform_experiment("naive", {.stages = 4, .microbatches = 2}, kPaper);
  EXPECT_EQ(drawn(experiment, kUnit),
            (Rows{"F0@0-1 B0@10-12 F1@12-13 B1@22-24", "F0@1-2 B0@8-10 F1@13-14 B1@20-22",
                  "F0@2-3 B0@6-8 F1@14-15 B1@18-20", "F0@3-4 B0@4-6 F1@15-16 B1@16-18"}));
}

TEST(PipeDreamFigure, ThreeGPipe) {
  const Experiment experiment = uniform_experiment("gpipe", {.stages = 4, .microbatches = 4}, kPaper);
  EXPECT_EQ(drawn(experiment, kUnit), (Rows{"F0@0-1 F1@1-2 F2@2-3 F3@3-4 B0@13-15 B1@15-17 B2@17-19 B3@19-21",
                                            "F0@1-2 F1@2-3 F2@3-4 F3@4-5 B0@11-13 B1@13-15 B2@15-17 B3@17-19",
                                            "F0@2-3 F1@3-4 F2@4-5 F3@5-6 B0@9-11 B1@11-13 B2@13-15 B3@15-17",
                                            "F0@3-4 F1@4-5 F2@5-6 F3@6-7 B0@7-9 B1@9-11 B2@11-13 B3@13-15"}));
  const Result result =
      summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
  EXPECT_DOUBLE_EQ(result.bubble.idle_over_total, 3.0 / 7);
  EXPECT_DOUBLE_EQ(result.bubble.idle_over_ideal, 0.75);
  for (const RankReport& rank : result.ranks) {
    EXPECT_EQ(rank.idle_ns, 9 * kUnit);
    EXPECT_EQ(rank.peak_live_activations, 4);
  }
}

TEST(PipeDreamFigure, FourOneFOneB) {
  const Experiment experiment = uniform_experiment("1f1b-rr", {.stages = 4, .microbatches = 8}, kPaper);
  EXPECT_EQ(
      drawn(experiment, kUnit),
      (Rows{"F0@0-1 F1@1-2 F2@2-3 F3@3-4 B0@10-12 F4@12-13 B1@13-15 F5@15-16 B2@16-18 F6@18-19 B3@19-21 "
            "F7@21-22 B4@22-24 B5@25-27 B6@28-30 B7@31-33",
            "F0@1-2 F1@2-3 F2@3-4 B0@8-10 F3@10-11 B1@11-13 F4@13-14 B2@14-16 F5@16-17 B3@17-19 F6@19-20 "
            "B4@20-22 F7@22-23 B5@23-25 B6@26-28 B7@29-31",
            "F0@2-3 F1@3-4 B0@6-8 F2@8-9 B1@9-11 F3@11-12 B2@12-14 F4@14-15 B3@15-17 F5@17-18 B4@18-20 "
            "F6@20-21 B5@21-23 F7@23-24 B6@24-26 B7@27-29",
            "F0@3-4 B0@4-6 F1@6-7 B1@7-9 F2@9-10 B2@10-12 F3@12-13 B3@13-15 F4@15-16 B4@16-18 F5@18-19 "
            "B5@19-21 F6@21-22 B6@22-24 F7@24-25 B7@25-27"}));
  const Result result =
      summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
  for (const RankReport& rank : result.ranks) {
    EXPECT_EQ(rank.peak_live_activations, 4 - rank.rank);
    EXPECT_EQ(rank.weight_versions, 4 - rank.rank);
  }
}

// Minibatch 5 of the paper (our 4) uses version max(0, k - (p - s + 1)) = 1, 2, 3, 4 on stages 1 to 4.
TEST(PipeDreamFigure, FourUsesANewerVersionOnEveryStage) {
  const Program program = *generate("1f1b-rr", {.stages = 4, .microbatches = 8});
  for (std::int32_t stage = 0; stage < 4; ++stage) {
    for (const Action& action : program.ranks[static_cast<std::size_t>(stage)]) {
      if (action.microbatch == 4) {
        EXPECT_EQ(action.weight_version, stage + 1) << to_text(action);
      }
    }
  }
}

TEST(PipeDreamFigure, FourRunsAMinibatchEveryThreeUnits) {
  const Experiment experiment = uniform_experiment("1f1b-rr", {.stages = 4, .microbatches = 64}, kPaper);
  EXPECT_EQ(steady_period(experiment, Engine::critical_path), (Period{3 * kUnit, 1}));
}

Experiment figure_eight(ReplicaSync sync, std::int32_t minibatches) {
  const Program program = *generate(
      "1f1b-rr", {.stages = 2, .microbatches = minibatches, .replicas = {2, 1}, .replica_sync = sync});
  const StageCost slow{.forward_ns = 2 * kUnit, .backward_ns = 2 * kUnit};
  const StageCost fast{.forward_ns = kUnit, .backward_ns = kUnit};
  return experiment_of(program, {.stages = {slow, fast}, .edges = {{}}},
                       uniform_links(3, kUnlimitedBandwidth, 0));
}

TEST(PipeDreamFigure, EightReplicatesTheInputStage) {
  EXPECT_EQ(
      drawn(figure_eight(ReplicaSync::off, 8), kUnit),
      (Rows{"F0@0-2 F2@2-4 B0@4-6 F4@6-8 B2@8-10 F6@10-12 B4@12-14 B6@16-18",
            "F1@0-2 F3@2-4 B1@6-8 F5@8-10 B3@10-12 F7@12-14 B5@14-16 B7@18-20",
            "F0@2-3 B0@3-4 F1@4-5 B1@5-6 F2@6-7 B2@7-8 F3@8-9 B3@9-10 F4@10-11 B4@11-12 F5@12-13 B5@13-14 "
            "F6@14-15 B6@15-16 F7@16-17 B7@17-18"}));
  EXPECT_EQ(steady_period(figure_eight(ReplicaSync::off, 64), Engine::critical_path), (Period{4 * kUnit, 2}));
}

TEST(PipeDreamFigure, EightWithAReductionAmongReplicasStartsTheThirdForwardLater) {
  const Rows rows = drawn(figure_eight(ReplicaSync::on, 8), kUnit);
  EXPECT_THAT(rows[0], testing::HasSubstr("F4@8-10")) << "both replicas' gradients are there at 8";
}

}  // namespace
}  // namespace penstock
