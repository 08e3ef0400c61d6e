// ZeRO over the ranks that share a stage: where the lists gather, and which programs can be sharded.

#include "schedules/passes/sharding.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/gather.hpp"
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

TEST(Sharding, OfWeightsGathersThemAroundEachPass) {
  EXPECT_EQ(first_list(*generate("data-parallel", two_replicas(2, 2, 3))),
            "0UNSHARD 1UNSHARD 0F0 0RESHARD 1F0 1RESHARD 1UNSHARD 0UNSHARD 1B0 1REDUCE_GRAD 1RESHARD 0B0 "
            "0REDUCE_GRAD 0RESHARD 1STEP 0STEP");
}

// Up to three, but 3B0 is gathered for when 3F0 has dropped its weights.
TEST(Sharding, OfWeightsHoldsThoseOfThreePassesAtATime) {
  EXPECT_EQ(first_list(*generate("data-parallel", two_replicas(4, 2, 3))),
            "0UNSHARD 1UNSHARD 2UNSHARD 0F0 0RESHARD 3UNSHARD 1F0 1RESHARD 2F0 2RESHARD 3F0 3RESHARD "
            "3UNSHARD 2UNSHARD 1UNSHARD 3B0 3REDUCE_GRAD 3RESHARD 0UNSHARD 2B0 2REDUCE_GRAD 2RESHARD 1B0 "
            "1REDUCE_GRAD 1RESHARD 0B0 0REDUCE_GRAD 0RESHARD 3STEP 2STEP 1STEP 0STEP");
}

/// 1F1B on two stages with two copies of the pipeline, which take half of the eight microbatches each.
Shape two_copies(std::int32_t sharding, Gather gather) {
  return {.stages = 2, .microbatches = 4, .data_parallel = 2, .sharding = sharding, .gather = gather};
}

TEST(Sharding, OfGradientsReducesThemInEachMicrobatchOrOnceAStep) {
  EXPECT_EQ(first_list(*generate("1f1b", two_copies(2, Gather::microbatch))),
            "0F0 0F2 0B0 0REDUCE_GRAD 0B2 0REDUCE_GRAD 0STEP 0UNSHARD");
  EXPECT_EQ(first_list(*generate("1f1b", two_copies(2, Gather::step))),
            "0F0 0F2 0B0 0B2 0REDUCE_GRAD 0STEP 0UNSHARD");
}

TEST(Sharding, OfWeightsGathersThemInEachMicrobatchOrOnceAStep) {
  EXPECT_EQ(first_list(*generate("1f1b", two_copies(3, Gather::microbatch))),
            "0UNSHARD 0F0 0RESHARD 0UNSHARD 0F2 0RESHARD 0UNSHARD 0B0 0REDUCE_GRAD 0RESHARD 0UNSHARD 0B2 "
            "0REDUCE_GRAD 0RESHARD 0STEP");
  EXPECT_EQ(first_list(*generate("1f1b", two_copies(3, Gather::step))),
            "0UNSHARD 0F0 0F2 0B0 0B2 0REDUCE_GRAD 0RESHARD 0STEP");
}

// However many stages a rank has: PyTorch's window of three would drop and gather the fourth one anew.
TEST(Sharding, OfWeightsGathersEveryStageOnceByStep) {
  Shape shape = two_copies(3, Gather::step);
  shape.virtual_stages = 5;
  const Program program = *generate("interleaved", shape);
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    const std::int32_t rank = program.placement.stages[static_cast<std::size_t>(stage)].ranks.front();
    const std::vector<Action>& actions = program.ranks[static_cast<std::size_t>(rank)];
    for (const ActionKind kind : {ActionKind::unshard, ActionKind::reduce_grad, ActionKind::reshard}) {
      EXPECT_EQ(std::ranges::count(actions, Action{.kind = kind, .stage = stage}), 1)
          << to_text(Action{.kind = kind, .stage = stage});
    }
  }
}

TEST(Sharding, OfWeightsKeepsThemFromARecomputationToItsBackwardPass) {
  Shape shape = two_copies(3, Gather::microbatch);
  shape.microbatches = 2;
  shape.checkpoint = Checkpoint::always;
  EXPECT_EQ(first_list(*generate("1f1b", shape)),
            "0UNSHARD 0F0 0RESHARD 0UNSHARD 0R0 0B0 0REDUCE_GRAD 0RESHARD 0STEP");
}

TEST(Sharding, OfNothingChangesNothing) {
  const Program program = *generate("data-parallel", two_replicas(2, 2, 0));
  EXPECT_EQ(shard_stages(program, {.sharding = 0}), program);
}

TEST(Sharding, LeavesAStageAloneThatOneRankHolds) {
  const Program program = *generate("1f1b", {.stages = 2, .microbatches = 2});
  for (const std::int32_t sharding : {1, 2, 3}) {
    Program sharded = *shard_stages(program, {.sharding = sharding});
    EXPECT_EQ(sharded.sharding, sharding);
    sharded.sharding = 0;
    EXPECT_EQ(sharded, program);
  }
}

/// Expects that every schedule's copies, exchanged so, are valid and hang nowhere, or that they are refused
/// for one of `reasons`. Returns how many were not refused.
int sharded_schedules(Gather gather, const std::vector<std::string>& reasons) {
  int sharded = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const std::int32_t sharding : {1, 2, 3}) {
      Shape shape{.stages = 2,
                  .microbatches = 8,
                  .virtual_stages = chunks_to_try(schedule),
                  .iterations = 2,
                  .sharding = sharding,
                  .gather = gather};
      if (!takes_option(schedule, "replicas")) {
        shape.data_parallel = 2;
      } else {
        shape.replicas = {2};
      }
      const auto program = generate(schedule.name, shape);
      if (!program) {
        EXPECT_TRUE(std::ranges::any_of(
            reasons,
            [&](const std::string& reason) { return program.error().find(reason) != std::string::npos; }))
            << schedule.name << ": " << program.error();
        continue;
      }
      const auto valid = validate(*program);
      EXPECT_TRUE(valid) << schedule.name << ": " << valid.error();
      const auto lowered = lower(*program);
      EXPECT_TRUE(lowered) << schedule.name << ": " << lowered.error();
      if (!lowered) continue;
      EXPECT_FALSE(find_hang(*lowered, {.model = ChannelModel::rank}, unit_costs(*lowered))) << schedule.name;
      ++sharded;
    }
  }
  return sharded;
}

// Also bidirectional schedules, whose stages are on two ranks each, in opposite orders.
TEST(Sharding, OfEverySchedulesCopiesIsValidAndHangsNowhereByStep) {
  EXPECT_GT(sharded_schedules(Gather::step, {"once a minibatch"}), 45);
}

// In bidirectional schedules the ranks of a stage may run it while others of them run another one.
TEST(Sharding, OfEverySchedulesCopiesIsValidAndHangsNowhereByMicrobatch) {
  EXPECT_GT(sharded_schedules(Gather::microbatch, {"once a minibatch", "wait for each other"}), 40);
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
  for (const std::int32_t sharding : {2, 3}) {
    EXPECT_THAT(
        refusal("data-parallel", two_replicas(4, 3, sharding)),
        HasSubstr("sharding: rank 0 has 2 backward passes of stage 0 to reduce but rank 1 has 1; take a "
                  "number of microbatches that divides among the ranks"));
  }
  const auto by_step = [](Shape shape) {
    shape.gather = Gather::step;
    return refusal("data-parallel", shape);
  };
  EXPECT_THAT(by_step(two_replicas(1, 1, 3)), HasSubstr("gathers stage 0 1 times on rank 0 but 0"));
  EXPECT_EQ(by_step(two_replicas(4, 3, 2)), "no error");
}

// gems runs microbatch 0 on one copy of the pipeline while 1 waits for the other: rank 0 begins with stage 0
// and rank 1, which has the other copy's last stage, with stage 1.
TEST(Sharding, OfWeightsNeedsRanksToGatherInOneOrder) {
  Shape shape{.stages = 2, .microbatches = 2, .sharding = 3};
  EXPECT_THAT(
      refusal("gems", shape),
      HasSubstr("sharding: 3 has rank 0 gather stage 0 where rank 1 gathers stage 1, so that they wait "
                "for each other; take fewer buckets or virtual stages, `parallel.gather: step`"));
  shape.gather = Gather::step;
  EXPECT_EQ(refusal("gems", shape), "no error");
}

TEST(Sharding, CannotReduceEachMicrobatchAndAtTheEnd) {
  Shape shape{.stages = 2, .microbatches = 8, .data_parallel = 2, .sharding = 2};
  shape.reduction = Reduction::at_end;
  EXPECT_THAT(refusal("gpipe", shape),
              HasSubstr("reduction: at_end waits for all backward passes, but sharding 2 "
                        "scatters the gradients of each microbatch"));
  shape.gather = Gather::step;
  EXPECT_EQ(refusal("gpipe", shape), "no error");
}

TEST(Sharding, IsAStageOfZeRO) {
  EXPECT_THAT(refusal("data-parallel", two_replicas(1, 2, 4)),
              HasSubstr("sharding: expected a ZeRO stage, 0 (none) to 3, got 4"));
}

}  // namespace
}  // namespace penstock
