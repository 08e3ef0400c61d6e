// Tests relatives of 1F1B: first 1F1B-RR with its warm-ups, routing, order and weight versions, then
// PipeDream-2BW and kFkB.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/result/metrics.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using Rows = std::vector<std::string>;

/// Returns one line for each rank, such as "F0@v0 F2@v0 B0@v0 ...", with global minibatch numbers.
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

// Replica 0 of the second stage gets 0, 3, 4, 7, and replica 1 gets 1, 2, 5, 6. The rule of the runtime is
// not the minibatch number modulo 2.
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

/// Returns the number of forwards before the first backward, on the first replica of each stage.
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

// These are published configurations of the released runtime.
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

// If the numbers of replicas are different primes, only few numbers of minibatches are possible, and they are
// far from each other. Only these numbers are tried.
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

// It is not enough that the numbers of replicas divide the number of minibatches: three replicas send unequal
// numbers to six.
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

// --- the order of the released runtime, action by action ---------------------------------------------

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
      // A text such as "F3@v2", with the number of the microbatch on this replica.
      for (const std::string op : rank.at("ops")) {
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

// Tests how many forwards 1F1B-RR runs before its first backward.

TEST(RoundRobinWarmup, IsOneForwardPerLaterStageWithoutReplicas) {
  EXPECT_EQ(round_robin_warmup(4, 1), 3);
  EXPECT_EQ(round_robin_warmup(1, 1), 0);
}

TEST(RoundRobinWarmup, KeepsEachReplicaBusyUntilItsFirstMinibatchComesBack) {
  EXPECT_EQ(round_robin_warmup(7, 4), 1);
  EXPECT_EQ(round_robin_warmup(3, 1), 2);
  EXPECT_EQ(round_robin_warmup(2, 2), 0);
}

// The paper on the partitioner states ceil(workers / replicas).
TEST(RoundRobinWarmup, WithTheOneAtWorkIsAReplicasShareOfTheWorkersRoundedUp) {
  for (int replicas = 1; replicas <= 8; ++replicas) {
    for (int workers = replicas; workers <= 40; ++workers)
      EXPECT_EQ(round_robin_warmup(workers, replicas) + 1, (workers + replicas - 1) / replicas);
  }
}

// Tests PipeDream-2BW: two weight versions, a delay of one update on every stage, and no flush.

template <class Check>
void for_all_shapes(Check check) {
  for (std::int32_t k = 1; k <= 6; ++k) {
    for (std::int32_t m = 1; m <= 8; ++m) {
      for (const std::int32_t iterations : {1, 2, 5}) {
        SCOPED_TRACE(testing::Message() << "K=" << k << " M=" << m << " iterations=" << iterations);
        const Shape shape{.stages = k, .microbatches = m, .iterations = iterations};
        const auto program = generate("pipedream-2bw", shape);
        ASSERT_TRUE(program) << program.error();
        check(shape, *program);
      }
    }
  }
}

TEST(PipeDream2BW, EveryMinibatchUsesTheWeightsOfOneUpdateAgo) {
  for_all_shapes([](const Shape& shape, const Program& program) {
    const auto valid = validate(program);
    EXPECT_TRUE(valid) << valid.error();
    EXPECT_EQ(program.update, UpdateRule::double_buffered);
    for (const std::vector<Action>& list : program.ranks) {
      for (const Action& action : list) {
        if (!has_weight_version(action.kind)) continue;
        EXPECT_EQ(action.weight_version, std::max(0, action.microbatch / shape.microbatches - 1))
            << to_text(action);
      }
    }
  });
}

TEST(PipeDream2BW, NeverNeedsMoreThanTwoVersions) {
  for_all_shapes([](const Shape&, const Program& program) {
    const Experiment experiment = experiment_of(program, unit_costs(program),
                                                uniform_links(program.rank_count(), kUnlimitedBandwidth, 0));
    const Result result =
        summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
    for (const RankReport& rank : result.ranks) EXPECT_LE(rank.weight_versions, 2) << "rank " << rank.rank;
  });
}

TEST(PipeDream2BW, StepsOnceAMinibatch) {
  for_all_shapes([](const Shape& shape, const Program& program) {
    for (const std::vector<Action>& list : program.ranks) {
      EXPECT_EQ(std::ranges::count(list, ActionKind::step, &Action::kind), shape.iterations);
    }
  });
}

TEST(PipeDream2BW, FillsThePipelineOnce) {
  for_all_shapes([](const Shape& shape, const Program& program) {
    if (shape.microbatches < shape.stages) return;
    const StageCost cost{.forward_ns = 7, .backward_ns = 13};
    const Experiment experiment = experiment_of(program, uniform_costs(program, cost),
                                                uniform_links(program.rank_count(), kUnlimitedBandwidth, 0));
    EXPECT_EQ(makespan_ns(experiment), (shape.microbatches * shape.iterations + shape.stages - 1) * (7 + 13));
  });
}

// Tests the groups of kFkB, and their purpose.

Program generated(const std::string& schedule, const Shape& shape) {
  const auto program = generate(schedule, shape);
  EXPECT_TRUE(program) << program.error();
  return program.value_or(Program{});
}

/// Returns the makespan in ms. F takes 1 ms, B takes 2 ms, and each message takes `latency` ms.
double time_of(const std::string& schedule, const Shape& shape, double latency) {
  const Program program = generated(schedule, shape);
  const auto latency_ns = static_cast<Ns>(latency * 1e6);
  const Experiment experiment = experiment_of(
      program, unit_costs(program), uniform_links(program.rank_count(), kUnlimitedBandwidth, latency_ns));
  return static_cast<double>(critical_path(experiment)->makespan_ns) / 1e6;
}

TEST(KFkB, IsOneFOneBWithGroupsOfOneAndGPipeWithOneGroup) {
  for (std::int32_t stages = 1; stages <= 5; ++stages) {
    for (std::int32_t microbatches = 1; microbatches <= 9; ++microbatches) {
      const Shape plain = {.stages = stages, .microbatches = microbatches};
      Shape ones = plain;
      ones.group_size = 1;
      Shape all = plain;
      all.group_size = microbatches;
      EXPECT_EQ(generated("kfkb", ones).ranks, generated("1f1b", plain).ranks);
      EXPECT_EQ(generated("kfkb", all).ranks, generated("gpipe", plain).ranks);
    }
  }
}

TEST(KFkB, ALastGroupMayBeSmaller) {
  const Program program = generated("kfkb", {.stages = 2, .microbatches = 5, .group_size = 2});
  std::string last;
  for (const Action& action : program.ranks[1]) last += to_text(action) + ' ';
  EXPECT_EQ(last, "1F0 1F1 1B0 1B1 1F2 1F3 1B2 1B3 1F4 1B4 1STEP ");
}

TEST(KFkB, RecomputesMicrobatchByMicrobatch) {
  const Program program =
      generated("kfkb", {.stages = 1, .microbatches = 2, .checkpoint = Checkpoint::always});
  std::string list;
  for (const Action& action : program.ranks[0]) list += to_text(action) + ' ';
  EXPECT_EQ(list, "0F0 0F1 0R0 0B0 0R1 0B1 0STEP ");
}

// In its steady state, 1F1B waits for links at every microbatch. Groups hide all of this time except the
// first message there and back. They need k times the activations, and slower links need larger groups.
TEST(KFkB, HidesTheLatencyOfLinksThatOneFOneBWaitsFor) {
  const Shape twos = {.stages = 4, .microbatches = 16};
  Shape fours = twos;
  fours.group_size = 4;
  EXPECT_EQ(time_of("kfkb", twos, 0), 57);
  EXPECT_EQ(time_of("kfkb", twos, 0.5), 57 + 6 * 0.5);
  EXPECT_GT(time_of("1f1b", twos, 0.5), 57 + 6 * 0.5);
  EXPECT_GT(time_of("kfkb", twos, 2), time_of("kfkb", fours, 2));
}

}  // namespace
}  // namespace penstock
