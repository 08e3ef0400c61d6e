// ZeRO over the ranks that share a stage: where the lists gather, and which programs can be sharded.

#include "schedules/passes/sharding.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/schedules/shapes.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

Shape two_replicas(std::int32_t stages, std::int32_t microbatches, std::int32_t sharding) {
  Shape shape{.stages = stages, .microbatches = microbatches, .sharding = sharding};
  shape.replicas = {2};
  return shape;
}

/// The first rank's list.
std::string first_list(const Program& program) {
  const std::string text = to_text(program);
  const std::size_t begin = text.find("rank 0: 0") + 8;
  return text.substr(begin, text.find('\n', begin) - begin);
}

std::string refusal(const std::string& schedule, const Shape& shape) {
  const auto program = generate(schedule, shape);
  return program ? "no error" : program.error();
}

TEST(Sharding, OfOptimizerStateGathersTheWeightsBehindTheLastStep) {
  for (const std::int32_t sharding : {1, 2}) {
    EXPECT_EQ(first_list(*generate("data-parallel", two_replicas(2, 2, sharding))),
              "0F0 1F0 1B0 1REDUCE_GRAD 0B0 0REDUCE_GRAD 1STEP 0STEP 0UNSHARD 1UNSHARD");
  }
}

TEST(Sharding, OfWeightsGathersThemBeforeTheirUse) {
  EXPECT_EQ(first_list(*generate("data-parallel", two_replicas(2, 2, 3))),
            "0UNSHARD 1UNSHARD 0F0 1F0 1B0 1REDUCE_GRAD 1RESHARD 0B0 0REDUCE_GRAD 0RESHARD 1STEP 0STEP");
}

TEST(Sharding, OfWeightsHoldsThreeStagesAtATime) {
  EXPECT_EQ(
      first_list(*generate("data-parallel", two_replicas(4, 2, 3))),
      "0UNSHARD 1UNSHARD 2UNSHARD 0F0 0RESHARD 3UNSHARD 1F0 2F0 3F0 3B0 3REDUCE_GRAD 3RESHARD 0UNSHARD 2B0 "
      "2REDUCE_GRAD 2RESHARD 1B0 1REDUCE_GRAD 1RESHARD 0B0 0REDUCE_GRAD 0RESHARD 3STEP 2STEP 1STEP 0STEP");
}

TEST(Sharding, OfNothingChangesNothing) {
  const Program program = *generate("data-parallel", two_replicas(2, 2, 0));
  EXPECT_EQ(shard_stages(program, 0), program);
}

TEST(Sharding, LeavesAStageAloneThatOneRankHolds) {
  const Program program = *generate("1f1b", {.stages = 2, .microbatches = 2});
  for (const std::int32_t sharding : {1, 2, 3}) {
    Program sharded = *shard_stages(program, sharding);
    EXPECT_EQ(sharded.sharding, sharding);
    sharded.sharding = 0;
    EXPECT_EQ(sharded, program);
  }
}

// Also bidirectional schedules, whose stages are on two ranks each, in opposite orders.
TEST(Sharding, OfEverySchedulesCopiesIsValidAndHangsNowhere) {
  int sharded = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const std::int32_t sharding : {1, 2, 3}) {
      Shape shape{.stages = 2,
                  .microbatches = 8,
                  .virtual_stages = chunks_to_try(schedule),
                  .iterations = 2,
                  .sharding = sharding};
      if (!takes_option(schedule, "replicas")) {
        shape.data_parallel = 2;
      } else {
        shape.replicas = {2};
      }
      const auto program = generate(schedule.name, shape);
      if (!program) {
        EXPECT_THAT(program.error(), HasSubstr("once a minibatch")) << schedule.name;
        continue;
      }
      const auto valid = validate(*program);
      EXPECT_TRUE(valid) << schedule.name << ": " << valid.error();
      const auto lowered = lower(*program);
      ASSERT_TRUE(lowered) << schedule.name << ": " << lowered.error();
      EXPECT_FALSE(find_hang(*lowered, {.model = ChannelModel::rank}, unit_costs(*lowered))) << schedule.name;
      ++sharded;
    }
  }
  EXPECT_GT(sharded, 45);
}

TEST(Sharding, NeedsOneUpdateAMinibatch) {
  Shape shape = two_replicas(2, 4, 1);
  EXPECT_THAT(
      refusal("1f1b-rr", shape),
      HasSubstr(
          "sharding: 1f1b-rr updates its weights more than once a minibatch or keeps several versions"));
}

TEST(Sharding, NeedsTheReductionOfGradients) {
  Shape shape = two_replicas(2, 4, 2);
  shape.replica_sync = ReplicaSync::off;
  EXPECT_THAT(refusal("data-parallel", shape), HasSubstr("do not reduce their gradients"));
}

TEST(Sharding, OfWeightsNeedsAllRanksToTakeAsManyTurns) {
  EXPECT_THAT(refusal("data-parallel", two_replicas(4, 3, 3)),
              HasSubstr("take a number of microbatches that divides among the ranks"));
  EXPECT_THAT(refusal("data-parallel", two_replicas(1, 1, 3)),
              HasSubstr("gathers stage 0 1 times on rank 0 but 0"));
  EXPECT_EQ(refusal("data-parallel", two_replicas(4, 3, 2)), "no error");
}

// gems runs microbatch 0 on one copy of the pipeline while 1 waits for the other: with two buckets a stage
// rank 0 gathers 0 1 2 while rank 1, which begins with the other copy, gathers 2 3 0.
TEST(Sharding, OfWeightsNeedsRanksToGatherInOneOrder) {
  const Shape shape{.stages = 2, .microbatches = 2, .buckets = {2}, .sharding = 3};
  EXPECT_THAT(refusal("gems", shape),
              HasSubstr("sharding: 3 has rank 0 gather stage 1 where rank 1 gathers stage 2"));
  EXPECT_EQ(refusal("gems", {.stages = 2, .microbatches = 2, .buckets = {2}, .sharding = 2}), "no error");
  EXPECT_EQ(refusal("gems", {.stages = 2, .microbatches = 2, .sharding = 3}), "no error");
}

TEST(Sharding, IsAStageOfZeRO) {
  EXPECT_THAT(refusal("data-parallel", two_replicas(1, 2, 4)),
              HasSubstr("sharding: expected a ZeRO stage, 0 (none) to 3, got 4"));
}

}  // namespace
}  // namespace penstock
