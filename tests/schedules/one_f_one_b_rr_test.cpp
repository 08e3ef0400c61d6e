// 1F1B-RR's warm-ups, routing, order and weight versions.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "schedules/check/validate.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

using Rows = std::vector<std::string>;

/// "F0@v0 F2@v0 B0@v0 ..." with global minibatch numbers, one row a rank.
Rows drawn(const Program& program) {
  Rows rows;
  for (const auto& list : program.ranks) {
    std::string row;
    for (const Action& action : list) {
      if (action.kind != ActionKind::forward && action.kind != ActionKind::backward) continue;
      row += fmt::format("{}{}{}@v{}", row.empty() ? "" : " ", letters(action.kind), action.microbatch,
                         action.weight_version);
    }
    rows.push_back(row);
  }
  return rows;
}

Program made(const Shape& shape) {
  const auto program = generate("1f1b-rr", shape);
  EXPECT_TRUE(program) << program.error();
  return program.value_or(Program{});
}

TEST(OneFOneBRR, TwoInputReplicasFeedOneStage) {
  EXPECT_EQ(drawn(made({.stages = 2, .microbatches = 8, .replicas = {2, 1}})),
            (Rows{"F0@v0 F2@v0 B0@v0 F4@v1 B2@v0 F6@v2 B4@v1 B6@v2",  //
                  "F1@v0 F3@v0 B1@v0 F5@v1 B3@v0 F7@v2 B5@v1 B7@v2",
                  "F0@v0 B0@v0 F1@v1 B1@v1 F2@v2 B2@v2 F3@v3 B3@v3 F4@v4 B4@v4 F5@v5 B5@v5 F6@v6 B6@v6 F7@v7 "
                  "B7@v7"}));
}

// Replica 0 of the second stage gets 0, 3, 4, 7 and replica 1 gets 1, 2, 5, 6: the runtime's rule is not
// the minibatch number modulo 2.
TEST(OneFOneBRR, TheRuntimeRoutesByLocalNumberPlusReplica) {
  EXPECT_EQ(drawn(made({.stages = 2, .microbatches = 8, .replicas = {2, 2}})),
            (Rows{"F0@v0 F2@v0 B0@v0 F4@v1 B2@v0 F6@v2 B4@v1 B6@v2",  //
                  "F1@v0 F3@v0 B1@v0 F5@v1 B3@v0 F7@v2 B5@v1 B7@v2",  //
                  "F0@v0 B0@v0 F3@v1 B3@v1 F4@v2 B4@v2 F7@v3 B7@v3",  //
                  "F1@v0 B1@v0 F2@v1 B2@v1 F5@v2 B5@v2 F6@v3 B6@v3"}));
}

TEST(OneFOneBRR, ThePapersRuleIsTheMinibatchNumberModuloTheReplicas) {
  const Rows rows =
      drawn(made({.stages = 2, .microbatches = 4, .replicas = {2, 2}, .routing = Routing::global}));
  EXPECT_EQ(rows[2], "F0@v0 B0@v0 F2@v1 B2@v1");
  EXPECT_EQ(rows[3], "F1@v0 B1@v0 F3@v1 B3@v1");
}

/// Forwards before the first backward on the first replica of each stage.
std::vector<int> warmups(const Program& program) {
  std::vector<int> counts;
  for (const StagePlacement& stage : program.placement.stages) {
    int count = -1;
    for (const Action& action : program.ranks[static_cast<std::size_t>(stage.ranks.front())]) {
      if (action.kind == ActionKind::backward) break;
      if (action.kind == ActionKind::forward) ++count;
    }
    counts.push_back(count);
  }
  return counts;
}

// The published configurations of the released runtime.
TEST(OneFOneBRR, WarmsUpWithFloorOfTheWorkersBehindOverItsReplicas) {
  const auto of = [](std::vector<std::int32_t> replicas) {
    const auto stages = static_cast<std::int32_t>(replicas.size());
    std::int32_t minibatches = 1;
    for (const std::int32_t r : replicas) minibatches *= r;
    return warmups(
        made({.stages = stages, .microbatches = 16 * minibatches, .replicas = std::move(replicas)}));
  };
  using testing::ElementsAre;
  EXPECT_THAT(of({3, 1}), ElementsAre(1, 0));
  EXPECT_THAT(of({2, 2}), ElementsAre(1, 0));
  EXPECT_THAT(of({15, 1}), ElementsAre(1, 0));
  EXPECT_THAT(of({4, 2, 2}), ElementsAre(1, 1, 0));
  EXPECT_THAT(of({1, 2}), ElementsAre(2, 0));
  EXPECT_THAT(of({1, 1, 1, 1}), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(of({1, 1, 1, 1, 1, 1, 1, 1, 3, 1}), ElementsAre(11, 10, 9, 8, 7, 6, 5, 4, 1, 0));
}

TEST(OneFOneBRR, AStatedWarmupReplacesTheRule) {
  EXPECT_THAT(warmups(made({.stages = 4, .microbatches = 20, .warmup = {6, 4, 2, 0}})),
              testing::ElementsAre(6, 4, 2, 0));
}

TEST(OneFOneBRR, AWarmupLongerThanTheStreamIsCutToIt) {
  EXPECT_EQ(drawn(made({.stages = 3, .microbatches = 1})),
            (Rows{"F0@v0 B0@v0", "F0@v0 B0@v0", "F0@v0 B0@v0"}));
}

TEST(OneFOneBRR, LatestWeightsGiveForwardAndBackwardDifferentVersions) {
  EXPECT_EQ(drawn(made({.stages = 2, .microbatches = 4, .weights = WeightPolicy::latest}))[0],
            "F0@v0 F1@v0 B0@v0 F2@v1 B1@v1 F3@v2 B2@v2 B3@v3");
}

TEST(OneFOneBRR, VerticalSyncUsesTheInputStagesVersionEverywhere) {
  const Program program = made({.stages = 3, .microbatches = 6, .weights = WeightPolicy::vertical_sync});
  for (const auto& list : program.ranks) {
    for (const Action& action : list) {
      if (action.microbatch != kNoMicrobatch) {
        EXPECT_EQ(action.weight_version, std::max(0, action.microbatch - 2)) << to_text(action);
      }
    }
  }
}

TEST(OneFOneBRR, ReplicasReduceAfterEachBackward) {
  const Program program = made({.stages = 1, .microbatches = 2, .replicas = {2}});
  ASSERT_EQ(program.ranks[0].size(), 4U);
  EXPECT_EQ(to_text(program.ranks[0][2]), "0REDUCE_GRAD");
  EXPECT_EQ(to_text(program.ranks[0][3]), "0STEP");
  const Program unsynced =
      made({.stages = 1, .microbatches = 2, .replicas = {2}, .replica_sync = ReplicaSync::off});
  EXPECT_EQ(unsynced.ranks[0].size(), 3U);
}

TEST(OneFOneBRR, MinibatchesThatDoNotDivideAmongReplicasAreRefusedWithTheNearestThatDo) {
  const auto refused = generate("1f1b-rr", {.stages = 2, .microbatches = 7, .replicas = {2, 1}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), testing::HasSubstr("the nearest that work: 6 and 8"));
}

// Primes of replicas share few numbers, which are far from each other; only those are looked at.
TEST(OneFOneBRR, NamesTheNearestMinibatchesAlsoWhereTheyAreFar) {
  const auto refused = generate("1f1b-rr", {.stages = 3, .microbatches = 5, .replicas = {97, 101, 103}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), testing::HasSubstr("the nearest that work: 1009091"));
}

TEST(OneFOneBRR, RefusesMoreReplicasThanRanksCanBeNumbered) {
  const std::int32_t many = 2'000'000'000;
  for (const std::vector<std::int32_t>& replicas : {std::vector{many, many}, std::vector{many}}) {
    const auto refused = generate("1f1b-rr", {.stages = 2, .microbatches = 4, .replicas = replicas});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error(), testing::HasSubstr("an impossible shape"));
  }
}

TEST(OneFOneBRR, WithoutASyncReplicasMayHaveUnequalWork) {
  EXPECT_EQ(
      drawn(made({.stages = 2, .microbatches = 3, .replicas = {2, 1}, .replica_sync = ReplicaSync::off})),
      (Rows{"F0@v0 F2@v0 B0@v0 B2@v0", "F1@v0 B1@v0", "F0@v0 B0@v0 F1@v1 B1@v1 F2@v2 B2@v2"}));
}

// Divisibility of the counts is not enough: three replicas feed six unevenly.
TEST(OneFOneBRR, RoutingThatStarvesAReplicaIsRefused) {
  const auto refused = generate("1f1b-rr", {.stages = 2, .microbatches = 24, .replicas = {3, 6}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), testing::HasSubstr("the nearest that work"));
}

TEST(OneFOneBRR, NeverHangsWithReplicatedStages) {
  for (const std::vector<std::int32_t>& replicas :
       {std::vector<std::int32_t>{3, 1}, {3, 2}, {4, 2, 2}, {2, 4}, {1, 3}, {2, 1, 2}}) {
    Shape shape{
        .stages = static_cast<std::int32_t>(replicas.size()), .microbatches = 48, .replicas = replicas};
    const auto program = generate("1f1b-rr", shape);
    ASSERT_TRUE(program) << program.error();
    EXPECT_TRUE(validate(*program)) << validate(*program).error();
    const auto lowered = lower(*program);
    EXPECT_TRUE(lowered) << lowered.error();
  }
}

// --- the runtime's own order, action for action ---------------------------------------------------------

TEST(OneFOneBRR, MatchesTheReleasedRuntimeActionForAction) {
  const std::filesystem::path path = source_path("../shared/reference/pipedream/rr_golden.json");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the reference orders are not beside this checkout";
  std::ifstream file(path);
  const nlohmann::json golden = nlohmann::json::parse(file);
  int actions = 0;
  for (const auto& test_case : golden.at("cases")) {
    const auto replicas = test_case.at("replication").get<std::vector<std::int32_t>>();
    SCOPED_TRACE(test_case.at("replication").dump());
    const std::int32_t minibatches =
        test_case.at("loader_iters_per_stage0_replica").get<std::int32_t>() * replicas.front();
    const Program program = made({.stages = static_cast<std::int32_t>(replicas.size()),
                                  .microbatches = minibatches,
                                  .replicas = replicas});
    const Rows rows = drawn(program);
    for (const auto& rank : test_case.at("ranks")) {
      const auto global = rank.at("global_minibatch").get<std::vector<int>>();
      std::string expected;
      for (const std::string op : rank.at("ops")) {  // "F3@v2" with a local number
        const std::size_t at = op.find('@');
        const int local = std::stoi(op.substr(1, at - 1));
        expected += fmt::format("{}{}{}{}", expected.empty() ? "" : " ", op[0],
                                global.at(static_cast<std::size_t>(local)), op.substr(at));
        ++actions;
      }
      EXPECT_EQ(rows.at(rank.at("rank").get<std::size_t>()), expected) << "rank " << rank.at("rank");
    }
  }
  EXPECT_EQ(actions, 256);
}

}  // namespace
}  // namespace penstock
