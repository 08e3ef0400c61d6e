// Tests schedules with several stages on a rank: the groups of microbatches, and the shapes that are refused.
// Also tests schedules in which microbatches enter the pipeline at both ends.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

std::string forwards_of(const Program& program, std::int32_t rank) {
  std::string text;
  for (const Action& action : program.ranks.at(static_cast<std::size_t>(rank))) {
    if (action.kind == ActionKind::forward) text += (text.empty() ? "" : " ") + to_text(action);
  }
  return text;
}

// Megatron-LM (commit d98e8a64) has this table in a comment: microbatches 0 1 2 0 1 2 3 4 3 4 on chunks 0 0 0
// 1 1 1 0 0 1 1.
TEST(Interleaved, GroupSizeOrdersTheVisitsAsMegatronDoes) {
  const auto program =
      generate("interleaved", {.stages = 2, .microbatches = 5, .virtual_stages = 2, .group_size = 3});
  ASSERT_TRUE(program) << program.error();
  EXPECT_EQ(forwards_of(*program, 0), "0F0 0F1 0F2 2F0 2F1 2F2 0F3 0F4 2F3 2F4");
}

// F and B of a pair wait for each other's inputs, but no rank idles between its first and its last pair.
TEST(Interleaved, OverlappedPairsFollowEachOther) {
  for (const auto& [k, v, m] : {std::tuple{2, 2, 8}, {4, 2, 16}, {4, 3, 12}, {8, 2, 24}, {1, 2, 4}}) {
    SCOPED_TRACE(k);
    const Shape shape{.stages = k, .microbatches = m, .virtual_stages = v, .expert_overlap = true};
    const Program program = generate("interleaved", shape).value();
    EXPECT_TRUE(validate(program));
    const Program lowered = lower(program).value();
    const FlatProgram flat = flatten(lowered, unit_costs(lowered), {.channels = {}});
    WalkDurations ones{.compute = std::vector<Ns>(flat.ops.size(), 0), .hold = {}, .latency = {}};
    for (std::size_t p = 0; p < flat.ops.size(); ++p) {
      if (flat.ops[p] == FlatOp::compute && flat.actions[p].kind != ActionKind::step) ones.compute[p] = 1;
    }
    const auto times = walk(flat, ones, {});
    ASSERT_TRUE(times);
    for (std::int32_t rank = 0; rank < k; ++rank) {
      std::vector<Ns> starts;
      for (std::size_t p = 0; p < flat.ops.size(); ++p) {
        if (flat.rank_of(static_cast<std::int32_t>(p)) == rank && flat.actions[p].overlaps_next)
          starts.push_back(times->start[p]);
      }
      ASSERT_GT(starts.size(), 1U);
      EXPECT_EQ(starts.back() - starts.front(), std::ssize(starts) - 1);
    }
  }
}

// Rank r runs 2(K - r - 1) + (v - 1) g + 1 forwards first, or all of them if there are fewer. Here g = K.
TEST(EpOneFOneB, WarmsUpOneForwardMoreThanInterleavedAndThenRunsPairs) {
  const Program program = generate("ep-1f1b", {.stages = 4, .microbatches = 16, .virtual_stages = 2}).value();
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    const std::vector<Action>& list = program.ranks[static_cast<std::size_t>(rank)];
    const std::ptrdiff_t warmup = 2 * (3 - rank) + 4 + 1;
    const auto first_pair = std::ranges::find_if(list, &Action::overlaps_next);
    EXPECT_EQ(first_pair - list.begin(), warmup) << "rank " << rank;
    EXPECT_EQ(std::ranges::count_if(list, &Action::overlaps_next), 2 * 16 - warmup) << "rank " << rank;
  }
}

TEST(EpOneFOneB, IsInterleavedWithExpertOverlap) {
  for (const auto& [k, v, m] :
       {std::tuple{1, 1, 1}, {1, 2, 3}, {4, 2, 3}, {4, 2, 1}, {3, 3, 7}, {4, 2, 16}}) {
    SCOPED_TRACE(m);
    const Shape plain{.stages = k, .microbatches = m, .virtual_stages = v};
    Shape overlapped = plain;
    overlapped.expert_overlap = true;
    const auto named = generate("ep-1f1b", plain);
    ASSERT_EQ(named.has_value(), generate("interleaved", overlapped).has_value());
    if (!named) continue;
    Program other = generate("interleaved", overlapped).value();
    other.schedule = "ep-1f1b";
    EXPECT_EQ(*named, other);
    EXPECT_EQ(*generate("ep-1f1b", overlapped), *named);
  }
}

TEST(EpOneFOneB, RefusesWhatItHasNoPlaceFor) {
  EXPECT_EQ(
      generate("ep-1f1b", {.stages = 2, .microbatches = 5, .virtual_stages = 2}).error(),
      "microbatches: ep-1f1b runs 5 microbatches on 2 ranks in 2 rounds, and 5 is not a multiple of 2; the "
      "nearest that work are 4 and 6");
  EXPECT_EQ(generate("ep-1f1b", {.stages = 2, .microbatches = 4, .checkpoint = Checkpoint::always}).error(),
            "checkpoint: ep-1f1b does not take it; it takes virtual_stages, group_size");
}

TEST(OneFOneB, PairsOnOneRank) {
  const Program program = generate("1f1b", {.stages = 1, .microbatches = 4, .expert_overlap = true}).value();
  EXPECT_TRUE(validate(program));
  std::string text;
  for (const Action& action : program.ranks[0]) text += to_text(action) + (action.overlaps_next ? "&" : " ");
  EXPECT_EQ(text, "0F0 0F1&0B0 0F2&0B1 0F3&0B2 0B3 0STEP ");
}

TEST(Interleaved, GroupSizeKIsPyTorchsOrderWhereMIsAMultipleOfK) {
  for (const auto& [k, m, v] : {std::tuple{2, 8, 2}, {4, 8, 2}, {4, 16, 4}, {3, 3, 3}}) {
    const Shape rounds{.stages = k, .microbatches = m, .virtual_stages = v};
    Shape groups = rounds;
    groups.group_size = k;
    EXPECT_EQ(*generate("interleaved", rounds), *generate("interleaved", groups));
  }
}

TEST(Interleaved, GroupSizeMayLeaveALastGroupOfAtLeastKMicrobatches) {
  const auto taken = [](std::int32_t m) {
    return generate("interleaved", {.stages = 4, .microbatches = m, .virtual_stages = 2, .group_size = 6})
        .has_value();
  };
  std::vector<std::int32_t> refused;
  for (std::int32_t m = 1; m <= 24; ++m) {
    if (!taken(m)) refused.push_back(m);
  }
  EXPECT_THAT(refused, testing::ElementsAre(7, 8, 9, 13, 14, 15, 19, 20, 21));
}

TEST(Interleaved, NamesTheRuleAndTheNearestShapesThatWork) {
  const auto message = [](std::int32_t m, std::int32_t group) {
    return generate("interleaved", {.stages = 4, .microbatches = m, .virtual_stages = 2, .group_size = group})
        .error();
  };
  EXPECT_EQ(
      message(14, 6),
      "microbatches: 14 in groups of 6 leave a last group of 2, and interleaved needs none or at least 4, "
      "the number of ranks; the nearest that work are 12 and 16");
  EXPECT_EQ(
      message(8, 3),
      "group_size: interleaved needs groups of at least as many microbatches as ranks, or a microbatch is "
      "not back in time for its next chunk; got 3 with 4 ranks; the nearest that works is 4");
  EXPECT_EQ(
      message(9, 0),
      "microbatches: interleaved runs 9 microbatches on 4 ranks in 2 rounds, and 9 is not a multiple of 2; "
      "the nearest that work are 8 and 10");
  EXPECT_THAT(message(9, -1), testing::StartsWith("group_size: expected a number of at least 1"));
}

// A suggested group size must itself be accepted. For example, groups of four would leave three of seven
// microbatches.
TEST(Interleaved, TheGroupSizeThatItOffersWorks) {
  for (std::int32_t k = 2; k <= 9; ++k) {
    for (std::int32_t m = 1; m <= 40; ++m) {
      Shape shape{.stages = k, .microbatches = m, .virtual_stages = 2, .group_size = 1};
      const auto refused = generate("interleaved", shape);
      if (refused) continue;
      const std::string& message = refused.error();
      shape.group_size = std::stoi(message.substr(message.rfind(' ')));
      EXPECT_TRUE(generate("interleaved", shape)) << message << " (M = " << m << ")";
    }
  }
}

TEST(Interleaved, FewerMicrobatchesThanRanksAreOneGroup) {
  for (const std::int32_t group : {0, 4, 7}) {
    const auto program =
        generate("interleaved", {.stages = 4, .microbatches = 3, .virtual_stages = 2, .group_size = group});
    ASSERT_TRUE(program) << program.error();
    EXPECT_EQ(forwards_of(*program, 0), "0F0 0F1 0F2 4F0 4F1 4F2");
  }
}

TEST(LoopedBfs, RunsBackwardsInReverse) {
  const Program program = *generate("LoopedBFS", {.stages = 1, .microbatches = 2, .virtual_stages = 2});
  std::string text;
  for (const Action& action : program.ranks.front()) text += to_text(action) + " ";
  EXPECT_EQ(text, "0F0 0F1 1F0 1F1 1B1 1B0 0B1 0B0 0STEP 1STEP ");
}

TEST(InterleavedZeroBubble, RefusesWhatItsRoundsCannotTakeByItsOwnName) {
  EXPECT_THAT(
      generate("InterleavedZeroBubble", {.stages = 2, .microbatches = 5, .virtual_stages = 2}).error(),
      testing::StartsWith(
          "microbatches: interleaved-zero-bubble runs 5 microbatches on 2 ranks in 2 rounds"));
}

TEST(VShape, HasTwoChunksARankByItsRule) {
  for (const char* name : {"zbv-zero-bubble", "dualpipe-v"}) {
    const Shape unsaid{.stages = 2, .microbatches = 4};
    Shape said = unsaid;
    said.virtual_stages = 2;
    EXPECT_EQ(*generate(name, unsaid), *generate(name, said));
    EXPECT_EQ(chunks_of(*find_schedule(name), unsaid), 2);
    said.virtual_stages = 3;
    EXPECT_EQ(
        generate(name, said).error(),
        fmt::format("virtual_stages: {} has 2 model chunks a rank by its rule, got 3; leave it out", name));
  }
}

TEST(Hanayo, NeedsWholeWaves) {
  EXPECT_EQ(generate("hanayo", {.stages = 2, .microbatches = 2, .virtual_stages = 3}).error(),
            "virtual_stages: a wave of hanayo is one chunk down and one chunk up, so it needs an even number "
            "(twice the waves); got 3; the nearest that work are 2 and 4");
  EXPECT_EQ(generate("hanayo", {.stages = 2, .microbatches = 2}).error(),
            "virtual_stages: a wave of hanayo is one chunk down and one chunk up, so it needs an even number "
            "(twice the waves); got 1; the nearest that work are 2");
}

TEST(SeqOneFOneB, IsOneFOneBForOneSlice) {
  for (std::int32_t k = 1; k <= 5; ++k) {
    Program program = *generate("seq-1f1b", {.stages = k, .microbatches = 7});
    program.schedule = "1f1b";
    EXPECT_EQ(program, *generate("1f1b", {.stages = k, .microbatches = 7}));
  }
}

TEST(SeqOneFOneB, SlicesAscendForwardAndDescendBackward) {
  const Program program = *generate("seq-1f1b", {.stages = 3, .microbatches = 3, .slices = 4});
  for (const std::vector<Action>& list : program.ranks) {
    std::vector<std::int32_t> forwards;
    std::vector<std::int32_t> backwards;
    for (const Action& action : list) {
      if (action.kind == ActionKind::forward) forwards.push_back(action.microbatch);
      if (action.kind == ActionKind::backward) backwards.push_back(action.microbatch);
    }
    EXPECT_THAT(forwards, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    EXPECT_THAT(backwards, testing::ElementsAre(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8));
  }
}

TEST(SeqOneFOneB, RefusesNoSlices) {
  EXPECT_EQ(generate("seq-1f1b", {.stages = 2, .microbatches = 2, .slices = 0}).error(),
            "slices: expected a number of at least 1, got 0");
}

// Tests the schedules in which microbatches enter the pipeline at both ends: DualPipe, Chimera and GEMS.

/// Returns one rank's compute actions with the names that the authors of DualPipe use. Stream a enters at
/// rank 0, and stream b at the last rank. Microbatches of each stream are numbered from 0, and pairs are in
/// parentheses.
std::string in_streams(const Program& program, std::int32_t rank) {
  const std::int32_t half = program.microbatches / 2;
  std::string text;
  bool in_pair = false;
  for (const Action& action : program.ranks.at(static_cast<std::size_t>(rank))) {
    if (!is_compute(action.kind) || action.kind == ActionKind::step) continue;
    const bool opens = action.overlaps_next && !in_pair;
    text += fmt::format("{}{}{}{}{}", in_pair ? "&" : (text.empty() ? "" : " "), opens ? "(" : "",
                        letters(action.kind), action.microbatch < half ? "a" : "b", action.microbatch % half);
    if (in_pair && !action.overlaps_next) text += ")";
    in_pair = action.overlaps_next;
  }
  return text;
}

/// Returns the published order without the groups "{...}" of transfers.
std::string compute_only(const std::string& line) {
  std::stringstream words(line);
  std::string text;
  bool in_group = false;
  for (std::string word; words >> word;) {
    if (word.starts_with("{")) in_group = true;
    if (!in_group) text += (text.empty() ? "" : " ") + word;
    if (word.ends_with("}")) in_group = false;
  }
  return text;
}

// The expected order is that of deepseek-ai/DualPipe, commit 3da1bbea, with 4 ranks and 8 microbatches.
TEST(DualPipe, RunsInThePublishedOrder) {
  const Program program = *generate("dualpipe", {.stages = 4, .microbatches = 8});
  EXPECT_EQ(in_streams(program, 0),
            "Fa0 Fa1 Fa2 Fb0 Ib0 Wb0 Fb1 (Fa3&Bb1) (Fb2&Ba0) Bb2 (Fb3&Ba1) Bb3 Ia2 Wa2 Ia3 Wa3");
  EXPECT_EQ(in_streams(program, 1),
            "Fa0 Fb0 Fa1 Fb1 Fa2 Bb0 (Fb2&Ba0) (Fa3&Bb1) (Fb3&Ba1) Bb2 Ba2 Ib3 Ia3 Wb3 Wa3");
  EXPECT_EQ(in_streams(program, 2),
            "Fb0 Fa0 Fb1 Fa1 Fb2 Ba0 (Fa2&Bb0) (Fb3&Ba1) (Fa3&Bb1) Ba2 Bb2 Ia3 Ib3 Wa3 Wb3");
  EXPECT_EQ(in_streams(program, 3),
            "Fb0 Fb1 Fb2 Fa0 Ia0 Wa0 Fa1 (Fb3&Ba1) (Fa2&Bb0) Ba2 (Fa3&Bb1) Ba3 Ib2 Wb2 Ib3 Wb3");
}

TEST(DualPipe, RunsInTheOrderOfEveryPublishedDump) {
  const std::filesystem::path folder = source_path("../shared/reference/dualpipe");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "DualPipe's dumps are not beside this checkout";
  for (const auto& [ranks, microbatches] : {std::pair{4, 8}, {8, 20}}) {
    std::ifstream file(folder / fmt::format("dualpipe_{}rank_{}mb.txt", ranks, microbatches));
    ASSERT_TRUE(file) << ranks << " ranks";
    const Program program = *generate("dualpipe", {.stages = ranks, .microbatches = microbatches});
    std::int32_t rank = 0;
    for (std::string line; std::getline(file, line); ++rank)
      EXPECT_EQ(in_streams(program, rank), compute_only(line)) << "rank " << rank;
    EXPECT_EQ(rank, ranks);
  }
}

TEST(DualPipe, NamesTheRuleAndTheNearestShapesThatWork) {
  const auto message = [](std::int32_t k, std::int32_t m) {
    return generate("dualpipe", {.stages = k, .microbatches = m}).error();
  };
  EXPECT_THAT(message(3, 12), testing::EndsWith("got 3; the nearest that work are 2 and 4"));
  EXPECT_THAT(message(1, 12), testing::EndsWith("got 1; the nearest that work are 2"));
  EXPECT_THAT(message(4, 7), testing::EndsWith("got 7; the nearest that works is 8"));
  EXPECT_THAT(message(4, 9), testing::EndsWith("got 9; the nearest that work are 8 and 10"));
  EXPECT_EQ(generate("dualpipe-v", {.stages = 2, .microbatches = 3}).error(),
            "microbatches: dualpipe-v needs at least as many as the model has stages, 2 x 2 = 4; got 3; the "
            "nearest that works is 4");
}

std::string forwards_and_backwards(const Program& program, std::int32_t rank) {
  std::string text;
  for (const Action& action : program.ranks.at(static_cast<std::size_t>(rank))) {
    if (action.kind != ActionKind::forward && action.kind != ActionKind::backward) continue;
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", letters(action.kind), action.microbatch);
  }
  return text;
}

// The expected order is that of the figure for D = 4 and N = 4 in Chimera's paper (SC'21).
TEST(Chimera, RunsInThePublishedOrder) {
  const Program program = *generate("chimera", {.stages = 4, .microbatches = 4});
  EXPECT_EQ(forwards_and_backwards(program, 0), "F0 F1 F2 B2 F3 B3 B0 B1");
  EXPECT_EQ(forwards_and_backwards(program, 1), "F0 F2 F1 F3 B2 B0 B3 B1");
  EXPECT_EQ(forwards_and_backwards(program, 2), "F2 F0 F3 F1 B0 B2 B1 B3");
  EXPECT_EQ(forwards_and_backwards(program, 3), "F2 F3 F0 B0 F1 B1 B2 B3");
}

TEST(Chimera, SendsHalfOfEachUnitDown) {
  const auto down = [](std::int32_t k, std::int32_t m) {
    const Program program = *generate("chimera", {.stages = k, .microbatches = m});
    std::vector<std::int32_t> microbatches;
    for (std::int32_t i = 0; i < m; ++i) {
      if (program.placement.rank_of(0, i) == 0) microbatches.push_back(i);
    }
    return microbatches;
  };
  EXPECT_THAT(down(4, 4), testing::ElementsAre(0, 1));
  EXPECT_THAT(down(4, 8), testing::ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(down(4, 3), testing::ElementsAre(0, 1));
  EXPECT_THAT(down(4, 6), testing::ElementsAre(0, 1, 4));
  EXPECT_THAT(down(2, 1), testing::ElementsAre(0));
}

/// Returns the actions of a rank on a stage after the stage's last backward, up to its STEP.
std::string after_last_backward(const std::vector<Action>& list, std::int32_t stage) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].kind == ActionKind::backward && list[i].stage == stage) last = i;
  }
  return to_text(list.at(last + 1));
}

TEST(Chimera, ReducesEachStageRightAfterItsLastBackward) {
  for (const std::int32_t k : {2, 4, 8}) {
    const Program program = *generate("chimera", {.stages = k, .microbatches = 2 * k});
    for (std::int32_t stage = 0; stage < k; ++stage) {
      for (const std::int32_t rank : program.placement.stages[static_cast<std::size_t>(stage)].ranks) {
        EXPECT_EQ(after_last_backward(program.ranks[static_cast<std::size_t>(rank)], stage),
                  fmt::format("{}REDUCE_GRAD", stage))
            << "rank " << rank << " of " << k;
      }
    }
  }
}

TEST(Chimera, ReducesAtTheEndOrNotAtAllWhenToldSo) {
  Shape shape{.stages = 4, .microbatches = 4, .reduction = Reduction::at_end};
  const std::vector<Action> list = generate("chimera", shape)->ranks.front();
  std::string end;
  for (std::size_t i = list.size() - 5; i < list.size(); ++i) end += to_text(list[i]) + " ";
  EXPECT_EQ(end, "0B1 0REDUCE_GRAD 3REDUCE_GRAD 0STEP 3STEP ");
  shape.replica_sync = ReplicaSync::off;
  const Program alone = *generate("chimera", shape);
  for (const std::vector<Action>& rank : alone.ranks) {
    for (const Action& action : rank) EXPECT_NE(action.kind, ActionKind::reduce_grad);
  }
}

TEST(Chimera, RefusesAnOddNumberOfRanks) {
  EXPECT_EQ(
      generate("chimera", {.stages = 5, .microbatches = 10}).error(),
      "stages: chimera's two directions fill each other's bubbles only on an even number of ranks; got 5; "
      "the nearest that work are 4 and 6");
}

TEST(Gems, TakesTurnsBetweenTheDirections) {
  const Program program = *generate("gems", {.stages = 3, .microbatches = 5, .iterations = 2});
  for (std::int32_t m = 0; m < 10; ++m) {  // the second iteration begins with a microbatch that goes down
    const bool down = m % 5 % 2 == 0;
    EXPECT_EQ(program.placement.rank_of(0, m), down ? 0 : 2) << m;
    EXPECT_EQ(program.placement.rank_of(1, m), 1) << "the middle rank holds its stage once";
  }
}

}  // namespace
}  // namespace penstock
