// Tests that the check accepts valid programs, marks the cell of an error, and refuses each bad program of
// must_fail/ with the expected message.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/test_files.hpp"

namespace penstock {

/// Returns the message of validate(), or an empty text if the program is valid.
inline std::string error_of(const Program& program) {
  const auto valid = validate(program);
  return valid ? "" : valid.error();
}

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

/// Returns a program with a V placement, split backwards, recomputation, an overlapped pair, and replicas on
/// the middle stages.
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

// If any single action is missing or appears twice, a program with messages is no longer valid. Only R and
// STEP may be left out, because recomputation is optional and a program need not contain updates.
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

// The message is about the first difference from a valid program. Lists in a random order must never crash
// the check.
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

// Tests what a stage may do with its weights and gradients between two STEPs. must_fail/ has the programs
// that are not allowed, with their messages.

/// Returns a program in which both ranks have stage 0 with the same list, and one microbatch each. `m` in the
/// list stands for the microbatch.
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

// The gradient of the previous iteration is reduced while the forwards of this iteration could already run.
TEST(StageLife, MayReduceAtTheBeginningOfTheNextPass) {
  EXPECT_EQ(error_of(two_replicas("update microbatch\n", "0REDUCE_GRAD 0STEP 0Fm@1 0Bm@1")), "");
}

TEST(StageLife, OfAStageHeldAloneNeedsNoReductionBesideSharedOnes) {
  const auto program = generate("1f1b-rr", {.stages = 2, .microbatches = 6, .replicas = {2, 1}});
  ASSERT_TRUE(program) << program.error();
  EXPECT_EQ(error_of(*program), "");
}

/// Returns `program` without the action at `position` of `rank`, and without the same action on the stage's
/// other ranks.
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

/// Returns how many UNSHARDs and REDUCE_GRADs can be removed on all ranks of a stage so that the program
/// stays valid.
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

// The parts that each microbatch's reduction gives add up. An earlier reduction may therefore be left out,
// but not the last one.
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

/// Returns the error of `program` after the actions at two positions of rank 0 are exchanged.
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

// Every file of must_fail/ is a small bad program. The file NAME.expected beside it has the whole message.

namespace fs = std::filesystem;

std::vector<fs::path> bad_programs() {
  const fs::path folder = source_path("tests/schedules/must_fail");
  std::vector<fs::path> files = test::files_in(folder, ".psched");
  const std::vector<fs::path> csv = test::files_in(folder, ".csv");
  files.insert(files.end(), csv.begin(), csv.end());
  return files;
}

std::string error_of(const fs::path& file) {
  const std::string text = test::text_of(file);
  const std::string name = file.filename().string();
  const auto program = file.extension() == ".csv" ? parse_pytorch_csv(text, name) : parse_program(text, name);
  if (!program) return program.error();
  const auto valid = validate(*program);
  return valid ? "no error" : valid.error();
}

class MustFail : public testing::TestWithParam<fs::path> {};

TEST_P(MustFail, WithThisMessage) {
  fs::path expected = GetParam();
  expected.replace_extension(".expected");
  EXPECT_EQ(error_of(GetParam()) + "\n", test::text_of(expected));
}

std::string test_name(const testing::TestParamInfo<fs::path>& info) { return info.param.stem().string(); }

INSTANTIATE_TEST_SUITE_P(Program, MustFail, testing::ValuesIn(bad_programs()), test_name);

TEST(MustFailFolder, HoldsAProgramForEachMessage) {
  const fs::path folder = source_path("tests/schedules/must_fail");
  EXPECT_GE(bad_programs().size(), 70U);
  EXPECT_EQ(test::files_in(folder, ".expected").size(), bad_programs().size());
}

}  // namespace
}  // namespace penstock
