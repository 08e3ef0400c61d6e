// Tests ZeRO over the ranks that share a stage: where lists gather weights, and which programs can be
// sharded.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

Shape two_replicas(std::int32_t stages, std::int32_t microbatches, std::int32_t sharding) {
  Shape shape{.stages = stages, .microbatches = microbatches, .sharding = sharding};
  shape.replicas = {2};
  return shape;
}

/// Returns the list of the first rank.
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

// At most three passes have gathered weights. 3B0 is gathered only after 3F0 has dropped its weights.
TEST(Sharding, OfWeightsHoldsThoseOfThreePassesAtATime) {
  EXPECT_EQ(first_list(*generate("data-parallel", two_replicas(4, 2, 3))),
            "0UNSHARD 1UNSHARD 2UNSHARD 0F0 0RESHARD 3UNSHARD 1F0 1RESHARD 2F0 2RESHARD 3F0 3RESHARD "
            "3UNSHARD 2UNSHARD 1UNSHARD 3B0 3REDUCE_GRAD 3RESHARD 0UNSHARD 2B0 2REDUCE_GRAD 2RESHARD 1B0 "
            "1REDUCE_GRAD 1RESHARD 0B0 0REDUCE_GRAD 0RESHARD 3STEP 2STEP 1STEP 0STEP");
}

/// Returns the shape of 1F1B on two stages with two copies of the pipeline. Each copy runs half of the eight
/// microbatches.
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

// With Gather::step, each stage is gathered once, for any number of stages on a rank. PyTorch's window of
// three would drop and gather the fourth stage again.
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

/// Checks the copies of every schedule under this exchange. Each program must be valid and must not hang, or
/// it must be refused for one of `reasons`. Returns the number of programs that were not refused.
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

// This includes bidirectional schedules, in which each stage is on two ranks, in opposite orders.
TEST(Sharding, OfEverySchedulesCopiesIsValidAndHangsNowhereByStep) {
  EXPECT_GT(sharded_schedules(Gather::step, {"once a minibatch"}), 45);
}

// In bidirectional schedules, some ranks of a stage may run this stage while its other ranks run another
// stage.
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

// gems runs microbatch 0 on one copy of the pipeline, and microbatch 1 on the other. Rank 0 begins with stage
// 0. Rank 1 holds the last stage of the other copy and begins with stage 1.
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

/// Returns a program with one rank, 16 stages and this list.
Program one_rank(const std::string& list) {
  std::string text = "penstock program 1\nschedule custom\nmicrobatches 8\n";
  for (int stage = 0; stage < 16; ++stage) text += "stage " + std::to_string(stage) + ": rank 0\n";
  return parse_program(text + "rank 0: " + list + "\n", "fsdp_test").value();
}

std::string list_of(const Program& program) {
  const std::string text = to_text(program);
  const std::string begin = "\nrank 0: ";
  const std::size_t at = text.find(begin) + begin.size();
  return text.substr(at, text.find('\n', at) - at);
}

std::string unsharded(const std::string& list, const UnshardOptions& options = {}) {
  return list_of(insert_unshard_reshard(one_rank(list), options));
}
std::string reduced(const std::string& list) { return list_of(insert_reduce_grad(one_rank(list))); }
std::string merged(const std::string& list) { return list_of(merge_backward(one_rank(list))); }

// The first two cases of each pass are from pytorch, test/distributed/pipelining/test_schedule.py.
TEST(Unshard, GathersTheStagesThatComeNext) {
  EXPECT_EQ(unsharded("0F0 0F1 0B0 0B1"), "0UNSHARD 0F0 0F1 0B0 0B1 0RESHARD");
  EXPECT_EQ(unsharded("0F0 0F1 1F0 1F1 1B0 1B1 0B0 0B1"),
            "0UNSHARD 1UNSHARD 0F0 0F1 1F0 1F1 1B0 1B1 1RESHARD 0B0 0B1 0RESHARD");
}

TEST(Unshard, KeepsAtMostSoManyStages) {
  EXPECT_EQ(
      unsharded("0F0 1F0 2F0 3F0 3B0 2B0 1B0 0B0"),
      "0UNSHARD 1UNSHARD 2UNSHARD 0F0 0RESHARD 3UNSHARD 1F0 2F0 3F0 3B0 3RESHARD 0UNSHARD 2B0 2RESHARD 1B0 "
      "1RESHARD 0B0 0RESHARD");
}

// From pytorch, test_schedule.py: the number of gathers of the last stage of the last rank in Interleaved1F1B
// on 4 ranks with 4 stages each and 16 microbatches.
TEST(Unshard, MoreActiveStagesNeedFewerGathers) {
  Shape shape;
  shape.stages = 4;
  shape.microbatches = 16;
  shape.virtual_stages = 4;
  const auto interleaved = generate("interleaved", shape);
  ASSERT_TRUE(interleaved) << interleaved.error();
  const Action unshard{.kind = ActionKind::unshard, .stage = 15};
  const auto gathers = [&](std::int32_t max_active_stages) {
    const Program program = insert_unshard_reshard(*interleaved, {.max_active_stages = max_active_stages});
    return std::ranges::count(program.ranks[3], unshard);
  };
  EXPECT_EQ(gathers(3), 4);
  EXPECT_EQ(gathers(4), 1);
}

// From pytorch, pull request 196706: the lookahead moves UNSHARDs and nothing else. With 1, each gather is
// directly before its stage.
TEST(Unshard, AShorterLookaheadGathersLater) {
  const std::string list = "0F0 1F0 2F0 3F0 3B0 2B0 1B0 0B0";
  EXPECT_EQ(
      unsharded(list, {.lookahead = {1}}),
      "0UNSHARD 0F0 0RESHARD 1UNSHARD 1F0 2UNSHARD 2F0 3UNSHARD 3F0 3B0 3RESHARD 2B0 2RESHARD 1B0 1RESHARD "
      "0UNSHARD 0B0 0RESHARD");
  EXPECT_EQ(
      unsharded(list, {.lookahead = {2}}),
      "0UNSHARD 1UNSHARD 0F0 0RESHARD 2UNSHARD 1F0 3UNSHARD 2F0 3F0 3B0 3RESHARD 2B0 2RESHARD 0UNSHARD 1B0 "
      "1RESHARD 0B0 0RESHARD");
  EXPECT_EQ(unsharded(list, {.lookahead = {3}}), unsharded(list));
  EXPECT_EQ(automatic_lookahead(4, 3), (std::vector<std::int32_t>{2, 3, 3, 3}));
}

TEST(Unshard, ALookaheadChangesNeitherDropsNorTheNumberOfGathers) {
  const auto program = generate("interleaved", {.stages = 4, .microbatches = 8, .virtual_stages = 4});
  const auto without_gathers = [](Program sharded) {
    for (std::vector<Action>& list : sharded.ranks)
      std::erase_if(list, [](const Action& action) { return action.kind == ActionKind::unshard; });
    return sharded;
  };
  const auto gathers = [](const Program& sharded, std::size_t rank) {
    return std::ranges::count(sharded.ranks[rank], ActionKind::unshard, &Action::kind);
  };
  const Program full = insert_unshard_reshard(*program);
  for (const std::vector<std::int32_t>& lookahead :
       {std::vector{1, 1, 1, 1}, std::vector{2, 2, 2, 2}, std::vector{1, 2, 3, 1}}) {
    const Program staggered = insert_unshard_reshard(*program, {.lookahead = lookahead});
    EXPECT_EQ(without_gathers(staggered), without_gathers(full));
    for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(gathers(staggered, rank), gathers(full, rank));
    const auto valid = validate(insert_reduce_grad(staggered));
    EXPECT_TRUE(valid) << valid.error();
  }
}

TEST(Unshard, DropsNoStageBeforeItsGradientsAreReduced) {
  EXPECT_EQ(unsharded("0F0 1F0 1B0 0B0 1REDUCE_GRAD 0REDUCE_GRAD 1STEP 0STEP"),
            "0UNSHARD 1UNSHARD 0F0 1F0 1B0 0B0 1REDUCE_GRAD 0REDUCE_GRAD 0RESHARD 1RESHARD 1STEP 0STEP");
  EXPECT_EQ(unsharded("0F0 1F0 1B0 1REDUCE_GRAD 0B0 0REDUCE_GRAD"),
            "0UNSHARD 1UNSHARD 0F0 1F0 1B0 1REDUCE_GRAD 1RESHARD 0B0 0REDUCE_GRAD 0RESHARD");
}

TEST(Unshard, OneStageAtATimeDropsBeforeItGathers) {
  EXPECT_EQ(unsharded("0F0 1F0 1B0 0B0", {.max_active_stages = 1}),
            "0UNSHARD 0F0 0RESHARD 1UNSHARD 1F0 1B0 1RESHARD 0UNSHARD 0B0 0RESHARD");
}

TEST(Unshard, AnOverlappedGroupIsGatheredAsAWhole) {
  EXPECT_EQ(
      unsharded("0F0 (1F0;2B0)OVERLAP_F_B 0B0", {.max_active_stages = 1}),
      "0UNSHARD 0F0 0RESHARD 1UNSHARD 2UNSHARD (1F0;2B0)OVERLAP_F_B 1RESHARD 2RESHARD 0UNSHARD 0B0 0RESHARD");
}

TEST(Unshard, StepsWorkOnTheShards) {
  EXPECT_EQ(unsharded("0F0 1F0 1B0 0B0 0STEP 1STEP"),
            "0UNSHARD 1UNSHARD 0F0 1F0 1B0 1RESHARD 0B0 0RESHARD 0STEP 1STEP");
}

TEST(Unshard, WeightsAreGatheredAnewBehindAStep) {
  EXPECT_EQ(unsharded("0F0 0B0 0STEP 0F1@1 0B1@1 0STEP"),
            "0UNSHARD 0F0 0B0 0RESHARD 0STEP 0UNSHARD 0F1@1 0B1@1 0RESHARD 0STEP");
}

TEST(Unshard, AnEmptyListStaysEmpty) { EXPECT_EQ(unsharded("0STEP"), "0STEP"); }

TEST(ReduceGrad, FollowsAStagesLastBackward) {
  EXPECT_EQ(reduced("0F0 0F1 0B0 0B1"), "0F0 0F1 0B0 0B1 0REDUCE_GRAD");
  EXPECT_EQ(reduced("0F0 0F1 1F0 1F1 1B0 1B1 0B0 0B1"),
            "0F0 0F1 1F0 1F1 1B0 1B1 1REDUCE_GRAD 0B0 0B1 0REDUCE_GRAD");
}

TEST(ReduceGrad, CountsWeightHalvesNotInputHalves) {
  EXPECT_EQ(reduced("0F0 0F1 0I0 0I1 0W0 0W1 0STEP"), "0F0 0F1 0I0 0I1 0W0 0W1 0REDUCE_GRAD 0STEP");
}

TEST(ReduceGrad, DoesNotSplitAnOverlappedGroup) {
  EXPECT_EQ(reduced("0F0 1F0 (1B0;0B0;2F0)OVERLAP_F_B 2B0"),
            "0F0 1F0 (1B0;0B0;2F0)OVERLAP_F_B 1REDUCE_GRAD 0REDUCE_GRAD 2B0 2REDUCE_GRAD");
}

TEST(ReduceGrad, InALoweredProgramComesBehindTheMessagesOfTheLastBackward) {
  const Program lowered = *lower(*generate("1f1b", {.stages = 2, .microbatches = 2}));
  const std::string text = to_text(insert_reduce_grad(lowered));
  EXPECT_EQ(text.substr(text.find("rank 0: 0")),
            "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE_GRAD 0STEP\n"
            "rank 1: 1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1REDUCE_GRAD 1STEP\n");
}

TEST(ReduceGrad, StagesThatReduceAlreadyStayAsTheyAre) {
  EXPECT_EQ(reduced("0F0 0B0 0REDUCE_GRAD 0STEP"), "0F0 0B0 0REDUCE_GRAD 0STEP");
}

TEST(ReduceGrad, FollowsTheLastBackwardBeforeEachUpdate) {
  EXPECT_EQ(reduced("0F0 0B0 0STEP 0F1@1 0B1@1 0STEP"),
            "0F0 0B0 0REDUCE_GRAD 0STEP 0F1@1 0B1@1 0REDUCE_GRAD 0STEP");
  EXPECT_EQ(reduced("0F0 0F1 0B0 0F2 0B1 0STEP 0F3 0B2 0B3 0STEP"),
            "0F0 0F1 0B0 0F2 0B1 0REDUCE_GRAD 0STEP 0F3 0B2 0B3 0REDUCE_GRAD 0STEP");
}

// The first case is from pytorch, test_schedule.py, test_merge_bw.
TEST(MergeBackward, JoinsNeighboursOfOneMicrobatch) {
  EXPECT_EQ(merged("0F0 0F1 0F2 0I0 0I1 0W0 0I2 0W2 0W1"), "0F0 0F1 0F2 0I0 0I1 0W0 0B2 0W1");
  EXPECT_EQ(merged("0I0@2 0W0@2"), "0B0@2");
  EXPECT_EQ(merged("0W0 0I0"), "0W0 0I0");
  EXPECT_EQ(merged("0I0 1W0"), "0I0 1W0");
}

TEST(MergeBackward, LeavesOverlappedGroupsAlone) {
  for (const auto* const list :
       {"(0I0;0W0)OVERLAP_F_B", "(1F0;0I0)OVERLAP_F_B 0W0", "0I0 (0W0;1F0)OVERLAP_F_B"}) {
    EXPECT_EQ(merged(list), list);
  }
  EXPECT_EQ(merged("(1F0;0I1)OVERLAP_F_B 0I0 0W0"), "(1F0;0I1)OVERLAP_F_B 0B0");
}

std::string lowered_csv(const Program& compute) {
  const auto lowered = lower(insert_reduce_grad(insert_unshard_reshard(compute)));
  if (!lowered) return lowered.error();
  const auto valid = validate(*lowered);
  return valid ? to_pytorch_csv(*lowered).value() : valid.error();
}

// This is interleaved 1F1B on 2 ranks with 2 stages each and 2 microbatches, as printed in pytorch issue
// 172668.
TEST(Fsdp, InterleavedOneFOneBIsPyTorchs) {
  const auto compute = parse_pytorch_csv(
      "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n"
      "1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1\n",
      "x");
  ASSERT_TRUE(compute);
  EXPECT_EQ(
      lowered_csv(*compute),
      "0UNSHARD,2UNSHARD,0F0,0SEND_F0,2RECV_F0,0F1,0SEND_F1,2RECV_F1,2F0,2SEND_F0,2F1,2SEND_F1,2RECV_B0,2B0,"
      "2SEND_B0,2RECV_B1,2B1,2SEND_B1,2REDUCE_GRAD,2RESHARD,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
      "1UNSHARD,3UNSHARD,1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3RECV_F1,3B0,3SEND_B0,"
      "1RECV_B0,3F1,3B1,3SEND_B1,1RECV_B1,3REDUCE_GRAD,3RESHARD,1B0,1SEND_B0,1B1,1SEND_B1,1REDUCE_GRAD,"
      "1RESHARD\n");
}

TEST(Fsdp, ReferenceFilesAreReproducedCellForCell) {
  const auto files = test::files_in(test::kReference / "pytorch", ".compute_only.csv");
  if (files.empty()) GTEST_SKIP() << "no reference files under " << test::kReference;
  for (const auto& file : files) {
    std::string expected = file.string();
    expected.replace(expected.find("compute_only"), 12, "compute_comms_fsdp");
    const auto compute = parse_pytorch_csv(test::text_of(file), file.filename().string());
    ASSERT_TRUE(compute) << compute.error();
    EXPECT_EQ(lowered_csv(*compute), test::text_of(expected)) << file.filename();
  }
}

}  // namespace
}  // namespace penstock
