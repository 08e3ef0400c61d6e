// What changes between two programs, read off small schedules.

#include "schedules/text/program_diff.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

Program made(const char* schedule, std::int32_t stages, std::int32_t microbatches) {
  return *generate(schedule, {.stages = stages, .microbatches = microbatches});
}

TEST(ProgramDiff, OfAProgramWithItselfIsEmpty) {
  const ProgramDiff diff = diff_programs(made("1f1b", 4, 8), made("1f1b", 4, 8));
  EXPECT_TRUE(diff.empty());
  EXPECT_EQ(to_text(diff, 10), "");
}

TEST(ProgramDiff, TheNameOfTheScheduleDoesNotCount) {
  Program renamed = made("gpipe", 2, 2);
  renamed.schedule = "custom";
  EXPECT_TRUE(diff_programs(made("gpipe", 2, 2), renamed).empty());
}

// gpipe  rank 0: F0 F1 B0 B1 STEP   rank 1: F0 F1 B0 B1 STEP
// 1f1b   rank 0: F0 F1 B0 B1 STEP   rank 1: F0 B0 F1 B1 STEP
TEST(ProgramDiff, ShowsWhereAnActionMovedTo) {
  const ProgramDiff diff = diff_programs(made("gpipe", 2, 2), made("1f1b", 2, 2));
  ASSERT_EQ(diff.ranks.size(), 1U) << to_text(diff, 10);
  EXPECT_EQ(diff.ranks[0].rank, 1);
  EXPECT_EQ(to_text(diff, 10),
            "rank 1: 2 changes in 5 actions\n"
            "  position 1: - 1F1\n"
            "  position 3: + 1F1\n");
}

TEST(ProgramDiff, ShowsSettingsAndPlacement) {
  Program more = made("gpipe", 2, 2);
  more.iterations = 3;
  more.placement.stages[1].ranks = {0};
  const ProgramDiff diff = diff_programs(made("gpipe", 2, 2), more);
  EXPECT_THAT(diff.settings, testing::ElementsAre("+ iterations 3", "stage 1: rank 1 -> stage 1: rank 0"));
}

TEST(ProgramDiff, ARankThatOnlyOneHasIsEmptyInTheOther) {
  const ProgramDiff diff = diff_programs(made("gpipe", 1, 1), made("gpipe", 2, 1));
  ASSERT_FALSE(diff.ranks.empty());
  EXPECT_EQ(diff.ranks.back().rank, 1);
  EXPECT_EQ(diff.ranks.back().actions, 0);
  EXPECT_THAT(diff.ranks.back().changes[0].added, testing::ElementsAre("1F0", "1B0", "1STEP"));
}

TEST(ProgramDiff, SeesWeightVersionsAndOverlaps) {
  Program other = made("gpipe", 1, 2);
  other.ranks[0][1].weight_version = 1;
  other.ranks[0][2].overlaps_next = true;
  EXPECT_EQ(to_text(diff_programs(made("gpipe", 1, 2), other), 10),
            "rank 0: 2 changes in 5 actions\n"
            "  position 1: - 0F1 + 0F1@1\n"
            "  position 3: - 0B1 + &0B1\n");
}

TEST(ProgramDiff, CountsWhatItDoesNotShow) {
  const std::string text = to_text(diff_programs(made("gpipe", 4, 16), made("1f1b", 4, 16)), 1);
  EXPECT_THAT(text, testing::HasSubstr("  and "));
}

}  // namespace
}  // namespace penstock
