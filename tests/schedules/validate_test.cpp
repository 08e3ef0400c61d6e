#include "schedules/check/validate.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/text/program_text.hpp"
#include "schedules/text/schedule_grid.hpp"
#include "tests/schedules/validity.hpp"

namespace penstock {
namespace {

Program custom(const std::string& lines) {
  auto program = parse_program("penstock program 1\nschedule custom\n" + lines, "validate_test");
  EXPECT_TRUE(program) << program.error();
  return program ? *program : Program{};
}

const std::string kTwoRanks = "microbatches 2\nstage 0: rank 0\nstage 1: rank 1\n";

Program one_f_one_b_of_two() {
  return custom(kTwoRanks + "rank 0: 0F0 0F1 0B0 0B1 0STEP\nrank 1: 1F0 1B0 1F1 1B1 1STEP\n");
}

/// V placement, split backwards, recomputation, an overlapped pair, replicas on the middle stages.
Program all_sorts() {
  return custom(
      "microbatches 2\n"
      "stage 0: rank 0\n"
      "stage 1: ranks 1 2 route 0 1\n"
      "stage 2: rank 0\n"
      "rank 0: 0F0 0F1 2F0 2I0 (2F1;2W0)OVERLAP_F_B 2B1 0R0 0B0 0I1 0W1 0STEP 2STEP\n"
      "rank 1: 1F0 1B0 1REDUCE_GRAD 1STEP\n"
      "rank 2: 1F1 1I1 1W1 1REDUCE_GRAD 1STEP\n");
}

struct Place {
  std::size_t rank = 0;
  std::ptrdiff_t position = 0;
  Action action;
};

std::vector<Place> places_of(const Program& program) {
  std::vector<Place> places;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (const Action& action : program.ranks[rank]) {
      places.push_back({rank, &action - program.ranks[rank].data(), action});
    }
  }
  return places;
}

TEST(Validate, AcceptsComputeProgramsAndLoweredOnes) {
  for (const Program& program : {one_f_one_b_of_two(), all_sorts()}) {
    EXPECT_EQ(error_of(program), "");
    const auto lowered = lower(program);
    ASSERT_TRUE(lowered) << lowered.error();
    EXPECT_EQ(error_of(*lowered), "");
  }
}

TEST(Validate, AcceptsBothHalvesOfABackwardInOneGroup) {
  for (const auto* const group : {"(0I0;0W0)", "(0W0;0I0)"}) {
    const Program program =
        custom(std::string("microbatches 1\nstage 0: rank 0\nrank 0: 0F0 ") + group + "OVERLAP_F_B 0STEP\n");
    EXPECT_EQ(error_of(program), "") << group;
  }
}

TEST(Validate, AcceptsAVersionOfEachStepBeforeIt) {
  EXPECT_EQ(error_of(custom("microbatches 2\nupdate microbatch\nstage 0: rank 0\n"
                            "rank 0: 0F0 0B0 0STEP 0F1@1 0B1@1 0STEP\n")),
            "");
}

TEST(Validate, ABackwardUsesTheWeightsOfItsForwardUnlessTheProgramSaysOtherwise) {
  const std::string lists = "stage 0: rank 0\nrank 0: 0F0 0F1 0B0 0STEP 0B1@1 0STEP\n";
  EXPECT_NE(error_of(custom("microbatches 2\nupdate microbatch\n" + lists))
                .find("must run with version 0 of its F"),
            std::string::npos);
  EXPECT_EQ(error_of(custom("microbatches 2\nversions mixed\nupdate microbatch\n" + lists)), "");
}

TEST(Validate, AcceptsBranchesAndSkips) {
  const Program program = custom(
      "microbatches 1\nedges 0>1 0>2 1>3 2>3\nstage 0: rank 0\nstage 1: rank 1\nstage 2: rank 2\nstage 3: "
      "rank 0\n"
      "rank 0: 0F0 3F0 3B0 0B0\nrank 1: 1F0 1B0\nrank 2: 2F0 2B0\n");
  const auto lowered = lower(program);
  ASSERT_TRUE(lowered) << lowered.error();
  EXPECT_EQ(error_of(*lowered), "");
}

TEST(Validate, CountsUnitsOfSlicedMicrobatches) {
  const Program sliced = custom("microbatches 1\nslices 2\nstage 0: rank 0\nrank 0: 0F0 0F1 0B1 0B0 0STEP\n");
  EXPECT_EQ(error_of(sliced), "");
  Program whole = sliced;
  whole.slices = 1;
  EXPECT_NE(error_of(whole), "");
}

// Whatever single action goes missing or comes twice, a program with messages is no longer valid. Only R and
// STEP may be left out: recomputation is a choice, and a program need not say how it is updated.
TEST(Validate, NoActionIsSuperfluous) {
  for (const Program& compute : {one_f_one_b_of_two(), all_sorts()}) {
    const Program lowered = lower(compute).value();
    for (const auto& [rank, position, action] : places_of(lowered)) {
      if (action.kind == ActionKind::step || action.kind == ActionKind::recompute) continue;
      Program without = lowered;
      without.ranks[rank].erase(without.ranks[rank].begin() + position);
      EXPECT_NE(error_of(without), "") << to_text(action);
    }
  }
}

TEST(Validate, NoActionMayComeTwice) {
  for (const Program& compute : {one_f_one_b_of_two(), all_sorts()}) {
    const Program lowered = lower(compute).value();
    for (const auto& [rank, position, action] : places_of(lowered)) {
      Program twice = lowered;
      twice.ranks[rank].insert(twice.ranks[rank].begin() + position, action);
      EXPECT_NE(error_of(twice), "") << to_text(action);
    }
  }
}

TEST(Validate, NoActionMayMoveToAnotherRank) {
  const Program lowered = lower(all_sorts()).value();
  for (const auto& [rank, position, action] : places_of(lowered)) {
    Program moved = lowered;
    moved.ranks[(rank + 1) % 3].push_back(action);
    moved.ranks[rank].erase(moved.ranks[rank].begin() + position);
    EXPECT_NE(error_of(moved), "") << to_text(action);
  }
}

TEST(Validate, RefusesNumbersOutOfRangeInAnyField) {
  const std::vector<std::pair<void (*)(Program&), std::string>> cases = {
      {[](Program& program) { program.microbatches = 0; }, "microbatches is 0, must be at least 1"},
      {[](Program& program) { program.slices = 0; }, "slices is 0, must be at least 1"},
      {[](Program& program) { program.iterations = -1; }, "iterations is -1, must be at least 1"},
      {[](Program& program) { program.sharding = 4; }, "sharding is 4, must be a ZeRO stage of 0 to 3"},
      {[](Program& program) { program.schedule = "a b"; },
       "the schedule's name `a b` must be one word without `#`"},
      {[](Program& program) { program.schedule = ""; },
       "the schedule's name `` must be one word without `#`"},
      {[](Program& program) { program.placement.stages.clear(); },
       "the program has no stage, must have at least one"},
      {[](Program& program) { program.placement.stages[1].ranks.clear(); },
       "stage 1 is on no rank, must be on at least one"},
      {[](Program& program) { program.placement.stages[1].ranks[0] = -1; },
       "stage 1 is on rank -1, must be on one of the ranks 0 to 1"},
      {[](Program& program) { program.placement.stages[1].route.clear(); },
       "stage 1 has an empty route, must name a replica"},
      {[](Program& program) { program.edges = {{1, 0}, {0, 1}}; }, "the stage edges must be sorted"},
      {[](Program& program) { program.edges = {{0, 1}, {0, 1}}; },
       "edge 0>1 is given twice, delete one of the two"},
      {[](Program& program) { program.edges = {{0, 0}}; },
       "the stage edges form a cycle that stage 0 waits for, must have none"},
      {[](Program& program) {
         program.microbatches = 1 << 30;
         program.iterations = 2;
       },
       "microbatches x slices x iterations is 1073741824 x 1 x 2, must be at most 2147483647"},
  };
  for (const auto& [change, message] : cases) {
    Program program = one_f_one_b_of_two();
    change(program);
    EXPECT_EQ(error_of(program), message);
  }
}

TEST(Validate, RefusesFieldsThatAKindDoesNotHave) {
  const std::vector<std::pair<void (*)(std::vector<Action>&), std::string>> cases = {
      {[](std::vector<Action>& list) { list[0].stage = 2; },
       "rank 0, position 0: 2F0 names stage 2, must be 0 to 1"},
      {[](std::vector<Action>& list) { list[0].stage = -1; },
       "rank 0, position 0: -1F0 names stage -1, must be 0 to 1"},
      {[](std::vector<Action>& list) { list[0].peer = 1; },
       "rank 0, position 0: 0F0 carries peer stage 1, must carry none"},
      {[](std::vector<Action>& list) { list[0].weight_version = -1; },
       "rank 0, position 0: 0F0 carries weight version -1, must be at least 0"},
      {[](std::vector<Action>& list) { list[4].microbatch = 0; },
       "rank 0, position 4: 0STEP carries microbatch 0, must carry none"},
      {[](std::vector<Action>& list) { list[4].weight_version = 1; },
       "rank 0, position 4: 0STEP carries weight version 1, must carry none"},
      {[](std::vector<Action>& list) { list[4].overlaps_next = true; },
       "rank 0, position 4: 0STEP overlaps the action after it, but it is the list's last"},
      {[](std::vector<Action>& list) { list[3].overlaps_next = true; },
       "rank 0, position 4: 0STEP is in an overlapped group, which must hold F, B, I, W or R only"},
  };
  for (const auto& [change, message] : cases) {
    Program program = one_f_one_b_of_two();
    change(program.ranks[0]);
    EXPECT_EQ(error_of(program).substr(0, message.size() + 1), message + "\n");
  }
}

TEST(Validate, TwoThousandMillionMicrobatchesWithoutActionsCostNothing) {
  Program program = one_f_one_b_of_two();
  program.microbatches = 2'000'000'000;
  EXPECT_TRUE(
      error_of(program).starts_with("rank 0: 0F2 is missing, every stage must run each microbatch's F once"));
}

// The first difference from a valid program is what the message is about: shuffled lists never crash the
// check.
TEST(Validate, ShuffledListsAreRefusedOrStillInOrder) {
  const Program lowered = lower(all_sorts()).value();
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 500; ++round) {
    Program shuffled = lowered;
    for (std::vector<Action>& list : shuffled.ranks) {
      const auto a = random() % list.size();
      const auto b = random() % list.size();
      std::swap(list[a], list[b]);
    }
    refused += error_of(shuffled).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 250);
}

TEST(ScheduleGrid, MarksTheCellAndShowsItsSurroundings) {
  EXPECT_EQ(schedule_grid(one_f_one_b_of_two(), {.rank = 1, .position = 2}, {.steps = 3}),
            "step  rank 0  rank 1\n"
            "   1  0F1     1B0\n"
            "   2  0B0     1F1 <-- here\n"
            "   3  0B1     1B1");
}

TEST(ScheduleGrid, AnOverlappedGroupIsOneStep) {
  EXPECT_EQ(schedule_grid(all_sorts(), {.rank = 0, .position = 5}, {.steps = 3, .ranks = 1}),
            "step  rank 0\n"
            "   3  2I0\n"
            "   4  (2F1;2W0) <-- here\n"
            "   5  2B1");
}

TEST(ScheduleGrid, AGroupWithoutItsLastActionEndsWithTheList) {
  Program program = one_f_one_b_of_two();
  program.ranks[0][4].overlaps_next = true;
  EXPECT_EQ(schedule_grid(program, {.rank = 0, .position = 4}, {.steps = 2, .ranks = 1}),
            "step  rank 0\n"
            "   3  0B1\n"
            "   4  (0STEP) <-- here");
}

TEST(ScheduleGrid, TheEndOfAListCanBeMarked) {
  EXPECT_EQ(schedule_grid(one_f_one_b_of_two(), {.rank = 0, .position = 5}, {.steps = 2, .ranks = 2}),
            "step  rank 0    rank 1\n"
            "   4  0STEP     1STEP\n"
            "   5  <-- here");
}

TEST(ScheduleGrid, ShowsTheRanksAroundTheMarkedOne) {
  Program program;
  program.ranks.resize(100);
  for (std::vector<Action>& list : program.ranks) list.push_back({.kind = ActionKind::step});
  EXPECT_EQ(schedule_grid(program, {.rank = 50, .position = 0}, {.ranks = 3}),
            "step  rank 49  rank 50         rank 51\n"
            "   0  0STEP    0STEP <-- here  0STEP");
  EXPECT_EQ(schedule_grid(program, {.rank = 99, .position = 0}, {.ranks = 2}),
            "step  rank 98  rank 99\n"
            "   0  0STEP    0STEP <-- here");
}

}  // namespace
}  // namespace penstock
