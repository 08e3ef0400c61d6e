// Schedules over several chunks a rank: groups of microbatches, and which shapes are refused.

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

std::string forwards_of(const Program& program, std::int32_t rank) {
  std::string text;
  for (const Action& action : program.ranks.at(static_cast<std::size_t>(rank))) {
    if (action.kind == ActionKind::forward) text += (text.empty() ? "" : " ") + to_text(action);
  }
  return text;
}

// Megatron-LM (commit d98e8a64) gives this very table in a comment: microbatches 0 1 2 0 1 2 3 4 3 4 on
// chunks 0 0 0 1 1 1 0 0 1 1.
TEST(Interleaved, GroupSizeOrdersTheVisitsAsMegatronDoes) {
  const auto program =
      generate("interleaved", {.stages = 2, .microbatches = 5, .virtual_stages = 2, .group_size = 3});
  ASSERT_TRUE(program) << program.error();
  EXPECT_EQ(forwards_of(*program, 0), "0F0 0F1 0F2 2F0 2F1 2F2 0F3 0F4 2F3 2F4");
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

// A hint that is refused in its turn is none: seven microbatches in groups of four would leave three.
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

}  // namespace
}  // namespace penstock
