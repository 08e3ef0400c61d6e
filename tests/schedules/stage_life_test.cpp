// What a stage may do with its weights and gradients between two STEPs; must_fail/ has what it may not,
// message by message.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/gather.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/fsdp.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/schedules/validity.hpp"

namespace penstock {
namespace {

/// One microbatch a rank on stage 0, which both ranks have with the same list, `m` being the microbatch.
Program two_replicas(const std::string& options, const std::string& list) {
  std::string text =
      "penstock program 1\nschedule custom\nmicrobatches 2\n" + options + "stage 0: ranks 0 1 route 0 1\n";
  for (const char* const rank : {"0", "1"}) {
    std::string mine = list;
    for (std::size_t at = mine.find('m'); at != std::string::npos; at = mine.find('m'))
      mine.replace(at, 1, rank);
    text += std::string("rank ") + rank + ": " + mine + "\n";
  }
  return parse_program(text, "stage_life_test").value();
}

TEST(StageLife, MayLeaveOutWhatItsProgramDoesOutOfSight) {
  EXPECT_EQ(error_of(two_replicas("", "0Fm 0Bm 0STEP")), "") << "replica_sync: off";
  EXPECT_EQ(error_of(two_replicas("", "0Fm 0Bm 0REDUCE_GRAD 0STEP")), "");
  EXPECT_EQ(error_of(two_replicas("", "0Fm 0Bm 0REDUCE_GRAD")), "") << "no optimizer";
}

TEST(StageLife, OfShardedWeightsMayDropThemWheneverTheyAreNotNeeded) {
  EXPECT_EQ(error_of(two_replicas("sharding 3\n", "0UNSHARD 0Fm 0Bm 0REDUCE_GRAD 0RESHARD 0STEP")), "");
  EXPECT_EQ(error_of(two_replicas("sharding 3\n", "0UNSHARD 0Fm 0RESHARD 0UNSHARD 0Bm 0REDUCE_GRAD 0STEP")),
            "")
      << "a STEP leaves gathered weights behind the time, so that the next pass gathers again";
  EXPECT_EQ(error_of(two_replicas("sharding 3\n", "0UNSHARD 0Fm 0Bm 0REDUCE_GRAD 0STEP 0RESHARD")), "");
}

TEST(StageLife, OfAShardedOptimizerGathersBehindTheStepOrBeforeTheNextUse) {
  EXPECT_EQ(error_of(two_replicas("sharding 1\n", "0Fm 0Bm 0REDUCE_GRAD 0STEP 0UNSHARD")), "");
  EXPECT_EQ(error_of(two_replicas("sharding 2\n", "0UNSHARD 0Fm 0Bm 0REDUCE_GRAD 0STEP")), "");
}

// The gradient of the pass before is reduced while this one's forwards could run already.
TEST(StageLife, MayReduceAtTheBeginningOfTheNextPass) {
  EXPECT_EQ(error_of(two_replicas("update microbatch\n", "0REDUCE_GRAD 0STEP 0Fm@1 0Bm@1")), "");
}

TEST(StageLife, OfAStageHeldAloneNeedsNoReductionBesideSharedOnes) {
  const auto program = generate("1f1b-rr", {.stages = 2, .microbatches = 6, .replicas = {2, 1}});
  ASSERT_TRUE(program) << program.error();
  EXPECT_EQ(error_of(*program), "");
}

/// `program` without the action at `position` of `rank`, nor its like on the stage's other ranks.
Program without_on_all_ranks(Program program, std::size_t rank, std::size_t position) {
  const std::vector<Action> list = program.ranks[rank];
  const Action gone = list[position];
  const auto nth = std::count(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(position), gone);
  for (std::vector<Action>& actions : program.ranks) {
    std::int64_t before = 0;
    std::erase_if(actions, [&](const Action& action) { return action == gone && before++ == nth; });
  }
  return program;
}

/// How many UNSHARDs and REDUCE_GRADs can be left out everywhere without being missed.
int superfluous(const Program& program) {
  int found = 0;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (std::size_t position = 0; position < program.ranks[rank].size(); ++position) {
      if (!is_collective(program.ranks[rank][position].kind)) continue;
      found += error_of(without_on_all_ranks(program, rank, position)).empty() ? 1 : 0;
    }
  }
  return found;
}

// The parts that each microbatch's reduction keeps add up: an earlier one may be left out, the last one not.
TEST(StageLife, OnlyTheLastOfSeveralReductionsHasToBeThere) {
  const Program program =
      *generate("1f1b", {.stages = 1, .microbatches = 4, .data_parallel = 2, .sharding = 2});
  EXPECT_EQ(superfluous(program), 2) << "one on each rank";
  Program without = program;
  for (std::vector<Action>& actions : without.ranks) {
    const auto last = std::ranges::find(actions, ActionKind::step, &Action::kind) - 1;
    ASSERT_EQ(to_text(*last), "0REDUCE_GRAD");
    actions.erase(last);
  }
  EXPECT_NE(error_of(without).find("must come after 0REDUCE_GRAD"), std::string::npos) << error_of(without);
  without.sharding = 1;
  EXPECT_NE(error_of(without).find("comes before 0B2"), std::string::npos) << error_of(without);
}

TEST(StageLife, NoGatherAndNoReductionIsSuperfluous) {
  const Shape loop{.stages = 2, .microbatches = 4, .virtual_stages = 4};
  EXPECT_EQ(superfluous(insert_reduce_grad(insert_unshard_reshard(*generate("interleaved", loop)))), 0);
  for (const std::int32_t sharding : {1, 2, 3}) {
    Shape copies{
        .stages = 4, .microbatches = 4, .data_parallel = 2, .sharding = sharding, .gather = Gather::step};
    EXPECT_EQ(superfluous(*generate("1f1b", copies)), 0) << "sharding " << sharding;
    copies.reduction = Reduction::at_end;
    EXPECT_EQ(superfluous(*generate("gpipe", copies)), 0) << "sharding " << sharding;
  }
}

/// The rule of `program` with the actions at two positions of rank 0 in each other's place.
std::string error_of_swapped(Program program, std::size_t one, std::size_t other) {
  std::swap(program.ranks[0][one], program.ranks[0][other]);
  const std::string error = error_of(program);
  return error.substr(0, error.find('\n'));
}

TEST(StageLife, IsSeenAmongMessagesToo) {
  const Program program = *lower(insert_reduce_grad(*generate("1f1b", {.stages = 2, .microbatches = 2})));
  // 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE_GRAD 0STEP
  ASSERT_EQ(to_text(program.ranks[0][8]), "0REDUCE_GRAD");
  EXPECT_EQ(error_of(program), "");
  EXPECT_EQ(
      error_of_swapped(program, 7, 8),
      "rank 0, position 7: 0REDUCE_GRAD comes before 0B1 (position 8), whose gradient it leaves out; must "
      "come after the last B or W of the stage before its STEP");
}

}  // namespace
}  // namespace penstock
