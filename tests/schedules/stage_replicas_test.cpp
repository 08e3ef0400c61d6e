// Tests unequal replicas with a flush: which microbatches each replica runs, in which order, and which shapes
// are refused.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

/// Returns the actions of a rank without the numbers of stages.
std::string stageless_list(const Program& program, std::size_t rank) {
  std::string text;
  for (const Action& action : program.ranks.at(rank)) {
    const std::string one = to_text(action);
    text += (text.empty() ? "" : " ") + one.substr(one.find_first_not_of("0123456789"));
  }
  return text;
}

TEST(StageReplicas, OfOneF1bRunEveryRthMicrobatchAndReduceOnceAMinibatch) {
  const Program program = *generate("1f1b", {.stages = 3, .microbatches = 5, .replicas = {2, 1, 2}});
  ASSERT_EQ(program.rank_count(), 5);
  EXPECT_EQ(stageless_list(program, 0), "F0 F2 F4 B0 B2 B4 REDUCE_GRAD STEP");
  EXPECT_EQ(stageless_list(program, 1), "F1 F3 B1 B3 REDUCE_GRAD STEP");
  EXPECT_EQ(stageless_list(program, 2), "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4 STEP");
  EXPECT_EQ(stageless_list(program, 3), "F0 B0 F2 B2 F4 B4 REDUCE_GRAD STEP");
  EXPECT_EQ(stageless_list(program, 4), "F1 B1 F3 B3 REDUCE_GRAD STEP");
}

TEST(StageReplicas, OfGPipeRunAllForwardsFirst) {
  Shape shape{.stages = 2, .microbatches = 3, .replicas = {1, 2}, .backward_order = BackwardOrder::lifo};
  const Program program = *generate("gpipe", shape);
  EXPECT_EQ(stageless_list(program, 0), "F0 F1 F2 B2 B1 B0 STEP");
  EXPECT_EQ(stageless_list(program, 1), "F0 F2 B2 B0 REDUCE_GRAD STEP");
  EXPECT_EQ(stageless_list(program, 2), "F1 B1 REDUCE_GRAD STEP");
}

// N is 3. The stage in front of all replicas would run (3 - 1) / r forwards ahead: 1 with 2 replicas, 2
// with 1. Stage 1 has no later stage, so it delays its W by 2.
TEST(StageReplicas, OfZbH1DelayTheirWeightGradients) {
  const Program program = *generate("zb-h1", {.stages = 2, .microbatches = 4, .replicas = {2, 1}});
  EXPECT_EQ(stageless_list(program, 0), "F0 F2 I0 W0 I2 W2 REDUCE_GRAD STEP");
  EXPECT_EQ(stageless_list(program, 1), "F1 F3 I1 W1 I3 W3 REDUCE_GRAD STEP");
  EXPECT_EQ(stageless_list(program, 2), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3 STEP");
}

TEST(StageReplicas, WithoutAMicrobatchOnlyReduce) {
  const Program program = *generate("1f1b", {.stages = 2, .microbatches = 1, .replicas = {3, 1}});
  EXPECT_EQ(stageless_list(program, 0), "F0 B0 REDUCE_GRAD STEP");
  EXPECT_EQ(stageless_list(program, 1), "REDUCE_GRAD STEP");
  EXPECT_EQ(stageless_list(program, 2), "REDUCE_GRAD STEP");
  EXPECT_TRUE(validate(program));
}

// Microbatch 3 is the first one of the second iteration, and is on replica 0 as microbatch 0 is.
TEST(StageReplicas, BeginEachIterationWithTheFirstReplica) {
  const Program odd =
      *generate("1f1b", {.stages = 2, .microbatches = 3, .iterations = 2, .replicas = {2, 1}});
  EXPECT_EQ(odd.placement.replica_of(0, 3), 0);
  EXPECT_EQ(odd.placement.replica_of(0, 4), 1);
  EXPECT_TRUE(validate(odd));
  EXPECT_TRUE(lower(odd));
  const Program even = *generate("1f1b", {.stages = 2, .microbatches = 4, .replicas = {2, 1}});
  EXPECT_THAT(even.placement.stages[0].route, testing::ElementsAre(0, 1));
}

TEST(StageReplicas, OfOneEachChangeNothing) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1"}) {
    const Shape plain{.stages = 3, .microbatches = 7};
    Shape ones = plain;
    ones.replicas = {1, 1, 1};
    EXPECT_EQ(*generate(name, ones), *generate(name, plain));
  }
}

TEST(StageReplicas, ThatDoNotReduceHaveNoReduction) {
  const Program program = *generate(
      "1f1b", {.stages = 2, .microbatches = 2, .replicas = {2, 1}, .replica_sync = ReplicaSync::off});
  EXPECT_EQ(stageless_list(program, 0), "F0 B0 STEP");
}

TEST(StageReplicas, RefuseWarmupsThatWouldWaitForEachOther) {
  const auto made = [](std::vector<std::int32_t> replicas, std::vector<std::int32_t> warmup) {
    return generate(
        "1f1b",
        {.stages = 2, .microbatches = 12, .replicas = std::move(replicas), .warmup = std::move(warmup)});
  };
  EXPECT_EQ(
      made({2, 1}, {1, 4}).error(),
      "warmup: stage 1 runs 1 x 4 forwards ahead of its first backwards, and stage 0 at most 2 x (1 + 1) "
      "without a gradient of it; give stage 0 more warm-up forwards, or stage 1 fewer");
  // The largest warm-up that is not refused also does not hang.
  for (const auto& taken : {made({2, 1}, {1, 3}), made({1, 2}, {2, 1}), made({3, 2}, {1, 2})}) {
    ASSERT_TRUE(taken) << taken.error();
    const auto lowered = lower(*taken);
    EXPECT_TRUE(lowered) << lowered.error();
  }
}

TEST(StageReplicas, RefuseCopiesOfThePipelineAsWell) {
  EXPECT_EQ(
      generate("1f1b", {.stages = 2, .microbatches = 4, .replicas = {2, 1}, .data_parallel = 2}).error(),
      "data_parallel: copies of a pipeline cannot have replicas of stages as well; give `replicas` or "
      "`data_parallel`");
  EXPECT_EQ(generate("1f1b", {.stages = 3, .microbatches = 4, .replicas = {2, 1}}).error(),
            "replicas: expected one number or 3, one a stage, got 2 numbers");
}

}  // namespace
}  // namespace penstock
