#include "schedules/passes/fsdp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/passes/merge_backward.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "schedules/text/pytorch_csv.hpp"
#include "tests/schedules/text_files.hpp"

namespace penstock {
namespace {

/// One rank with 16 stages and this list.
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

std::string unsharded(const std::string& list, int max_active_stages = 3) {
  return list_of(insert_unshard_reshard(one_rank(list), max_active_stages));
}
std::string reduced(const std::string& list) { return list_of(insert_reduce_grad(one_rank(list))); }
std::string merged(const std::string& list) { return list_of(merge_backward(one_rank(list))); }

// The first two cases of each pass: pytorch, test/distributed/pipelining/test_schedule.py.
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

// pytorch, test_schedule.py: how often Interleaved1F1B on 4 ranks with 4 stages each and 16 microbatches
// gathers the last stage of the last rank.
TEST(Unshard, MoreActiveStagesNeedFewerGathers) {
  Shape shape;
  shape.stages = 4;
  shape.microbatches = 16;
  shape.virtual_stages = 4;
  const auto interleaved = generate("interleaved", shape);
  ASSERT_TRUE(interleaved) << interleaved.error();
  const Action unshard{.kind = ActionKind::unshard, .stage = 15};
  const auto gathers = [&](int max_active_stages) {
    return std::ranges::count(insert_unshard_reshard(*interleaved, max_active_stages).ranks[3], unshard);
  };
  EXPECT_EQ(gathers(3), 4);
  EXPECT_EQ(gathers(4), 1);
}

TEST(Unshard, DropsNoStageBeforeItsGradientsAreReduced) {
  EXPECT_EQ(unsharded("0F0 1F0 1B0 0B0 1REDUCE_GRAD 0REDUCE_GRAD 1STEP 0STEP"),
            "0UNSHARD 1UNSHARD 0F0 1F0 1B0 0B0 1REDUCE_GRAD 0REDUCE_GRAD 0RESHARD 1RESHARD 1STEP 0STEP");
  EXPECT_EQ(unsharded("0F0 1F0 1B0 1REDUCE_GRAD 0B0 0REDUCE_GRAD"),
            "0UNSHARD 1UNSHARD 0F0 1F0 1B0 1REDUCE_GRAD 1RESHARD 0B0 0REDUCE_GRAD 0RESHARD");
}

TEST(Unshard, OneStageAtATimeDropsBeforeItGathers) {
  EXPECT_EQ(unsharded("0F0 1F0 1B0 0B0", 1),
            "0UNSHARD 0F0 0RESHARD 1UNSHARD 1F0 1B0 1RESHARD 0UNSHARD 0B0 0RESHARD");
}

TEST(Unshard, AnOverlappedGroupIsGatheredAsAWhole) {
  EXPECT_EQ(
      unsharded("0F0 (1F0;2B0)OVERLAP_F_B 0B0", 1),
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

// The first case: pytorch, test_schedule.py, test_merge_bw.
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

// Interleaved 1F1B, 2 ranks with 2 stages each, 2 microbatches, as printed in pytorch issue 172668.
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
