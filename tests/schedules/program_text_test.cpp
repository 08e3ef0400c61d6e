// Tests that the text of a program is read back without a change. The second part tests the difference of two
// programs, and the third part the shortest edit script between two lists.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"

namespace penstock {
namespace {

constexpr const char* kEverything =
    "penstock program 1\n"
    "schedule 1f1b\n"
    "microbatches 4\n"
    "iterations 2\n"
    "slices 2\n"
    "barrier\n"
    "versions mixed\n"
    "update microbatch\n"
    "recompute late\n"
    "sharding 2\n"
    "channel pair\n"
    "edges 0>1 0>2 1>2\n"
    "stage 0: rank 0\n"
    "stage 1: ranks 1 2 route 0 1 1 0\n"
    "stage 2: rank 0 route 0 0\n"
    "rank 0: 0F0 0R0@3 (0F5;0B2@1)OVERLAP_F_B 0SEND_F0 0SEND_F3>2 0REDUCE_GRAD 0STEP\n"
    "rank 1:\n"
    "rank 2: 2RECV_F0<0 1UNSHARD 1RESHARD\n";

TEST(ProgramText, EveryFieldReadsBackByteForByte) {
  const auto program = parse_program(kEverything, "all.psched");
  ASSERT_TRUE(program) << program.error();
  EXPECT_EQ(to_text(*program), kEverything);

  EXPECT_EQ(program->schedule, "1f1b");
  EXPECT_EQ(program->microbatches, 4);
  EXPECT_EQ(program->iterations, 2);
  EXPECT_EQ(program->slices, 2);
  EXPECT_TRUE(program->barrier);
  EXPECT_TRUE(program->mixed_versions);
  EXPECT_EQ(program->update, UpdateRule::microbatch);
  EXPECT_EQ(program->recompute, RecomputeTiming::late);
  EXPECT_EQ(program->sharding, 2);
  EXPECT_EQ(program->channel, ChannelModel::pair);
  EXPECT_EQ(program->edges, (std::vector<StageEdge>{{0, 1}, {0, 2}, {1, 2}}));
  EXPECT_EQ(program->placement.stages[1].ranks, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(program->placement.stages[1].route, (std::vector<std::int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(program->ranks[0].size(), 8U);
  EXPECT_TRUE(program->ranks[0][2].overlaps_next);
  EXPECT_EQ(program->ranks[0][5].peer, 2);
}

TEST(ProgramText, OptionsWithTheirDefaultHaveNoLine) {
  Program program;
  program.schedule = "custom";
  program.microbatches = 1;
  program.placement.stages = {{.ranks = {0}}};
  program.ranks = {{{.kind = ActionKind::forward, .stage = 0, .microbatch = 0}}};
  EXPECT_EQ(to_text(program),
            "penstock program 1\nschedule custom\nmicrobatches 1\nstage 0: rank 0\nrank 0: 0F0\n");
}

TEST(ProgramText, CommentsBlankLinesIndentationAndCarriageReturnsAreIgnored) {
  const auto program = parse_program(
      "# made by hand\r\n\r\n  penstock program 1  # the form\r\nschedule custom\r\nmicrobatches 1\r\n"
      "stage 0: rank 0\r\n\r\n\trank 0:\t0F0   0B0 # F and B\r\n",
      "x");
  ASSERT_TRUE(program) << program.error();
  EXPECT_EQ(to_text(*program),
            "penstock program 1\nschedule custom\nmicrobatches 1\nstage 0: rank 0\nrank 0: 0F0 0B0\n");
}

TEST(ProgramText, LastLineNeedsNoLineEnd) {
  std::string text = kEverything;
  text.pop_back();
  const auto program = parse_program(text, "x");
  ASSERT_TRUE(program) << program.error();
  EXPECT_EQ(to_text(*program), kEverything);
}

TEST(ProgramText, EdgesAreSorted) {
  std::string text = kEverything;
  text.replace(text.find("0>1 0>2 1>2"), 11, "1>2 0>1 0>2");
  const auto program = parse_program(text, "x");
  ASSERT_TRUE(program) << program.error();
  EXPECT_EQ(to_text(*program), kEverything);
}

TEST(ProgramText, AGroupWithoutItsLastActionShows) {
  auto program = parse_program(kEverything, "x");
  ASSERT_TRUE(program);
  program->ranks[1] = {{.kind = ActionKind::forward, .overlaps_next = true, .stage = 1, .microbatch = 0}};
  EXPECT_NE(to_text(*program).find("rank 1: (1F0)OVERLAP_F_B\n"), std::string::npos);
}

// Every beginning of a text is either read as a program or refused with an error that names its file. The
// parser must not crash or loop forever.
TEST(ProgramText, EveryPrefixIsReadOrRefusedWithThePlace) {
  const std::string text = kEverything;
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto program = parse_program(text.substr(0, length), "cut.psched");
    if (program) continue;
    EXPECT_TRUE(program.error().starts_with("cut.psched:")) << program.error();
  }
}

/// Makes programs that need not be valid but use every field.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed) : random_(seed) {}

  Program make() {
    Program program;
    program.schedule = chance(2) ? "custom" : "zb-h1";
    program.microbatches = number(1, 2'000'000);
    program.slices = chance(2) ? 1 : number(1, 9);
    program.iterations = chance(2) ? 1 : number(1, 9);
    program.barrier = chance(3);
    program.mixed_versions = chance(3);
    program.update = static_cast<UpdateRule>(number(0, 2));
    program.recompute = static_cast<RecomputeTiming>(number(0, 1));
    program.sharding = number(0, 3);
    program.channel = kChannelModels[static_cast<std::size_t>(number(0, 4))];
    const std::int32_t ranks = number(1, 5);
    stages_ = number(1, 7);
    for (std::int32_t stage = 0; stage < stages_; ++stage)
      program.placement.stages.push_back(placement(ranks));
    for (std::int32_t edge = 0; chance(2) && edge < 5; ++edge) program.edges.push_back({stage(), stage()});
    std::ranges::sort(program.edges);
    for (std::int32_t rank = 0; rank < ranks; ++rank) program.ranks.push_back(list());
    return program;
  }

 private:
  std::int32_t number(std::int32_t least, std::int32_t most) {
    return std::uniform_int_distribution<std::int32_t>(least, most)(random_);
  }
  bool chance(std::int32_t one_in) { return number(1, one_in) == 1; }
  std::int32_t stage() { return number(0, stages_ - 1); }

  StagePlacement placement(std::int32_t ranks) {
    StagePlacement placement;
    placement.ranks.resize(static_cast<std::size_t>(number(1, 3)));
    for (std::int32_t& rank : placement.ranks) rank = number(0, ranks - 1);
    if (placement.ranks.size() == 1 && chance(2)) return placement;
    placement.route.resize(static_cast<std::size_t>(number(1, 4)));
    for (std::int32_t& replica : placement.route) replica = number(0, 5);
    return placement;
  }

  std::vector<Action> list() {
    std::vector<Action> actions(static_cast<std::size_t>(number(0, 12)));
    for (Action& action : actions) {
      action = {.kind = static_cast<ActionKind>(number(0, 12)), .overlaps_next = chance(4), .stage = stage()};
      if (has_microbatch(action.kind)) action.microbatch = number(0, 100'000);
      if (is_transfer(action.kind)) action.peer = stage();
      if (has_weight_version(action.kind) && chance(3)) action.weight_version = number(1, 1'000'000);
    }
    // A group has compute actions alone, or transfers alone.
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const bool has_next = i + 1 < actions.size();
      const ActionKind kind = actions[i].kind;
      actions[i].overlaps_next &= has_next && ((is_transfer(kind) && is_transfer(actions[i + 1].kind)) ||
                                               (is_compute(kind) && is_compute(actions[i + 1].kind)));
    }
    return actions;
  }

  std::mt19937 random_;
  std::int32_t stages_ = 1;
};

TEST(ProgramText, RandomProgramsComeBackEqual) {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    const Program program = RandomProgram(seed).make();
    const std::string text = to_text(program);
    const auto again = parse_program(text, "random");
    ASSERT_TRUE(again) << "seed " << seed << ": " << again.error() << "\n" << text;
    ASSERT_EQ(*again, program) << "seed " << seed << "\n" << text;
    ASSERT_EQ(to_text(*again), text) << "seed " << seed;
  }
}

// Tests the differences between two programs, on small schedules.

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
            "rank 0: 1 change in 5 actions\n"
            "  position 1: - 0F1 0B0 0B1 + 0F1@1 (0B0;0B1)OVERLAP_F_B\n");
}

// The notation is that of program files. The positions still count actions, and not groups.
TEST(ProgramDiff, SeesGroupsOfMessagesAndWhetherTheyWait) {
  const auto program = [](std::string_view messages, std::string_view last) {
    return *parse_program(
        fmt::format("penstock program 1\nschedule x\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
                    "rank 0: 0F0 0SEND_F0 0F1 {} 0B0 {}\n"
                    "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1\n",
                    messages, last),
        "x");
  };
  const Program waits = program("(0SEND_F1;0RECV_B0)GROUP", "0STEP");
  const Program goes_on = program("(0SEND_F1;0RECV_B0)GROUP_NOWAIT", "0STEP");
  EXPECT_EQ(to_text(diff_programs(waits, goes_on), 10),
            "rank 0: 1 change in 7 actions\n"
            "  position 3: - (0SEND_F1;0RECV_B0)GROUP + (0SEND_F1;0RECV_B0)GROUP_NOWAIT\n");
  EXPECT_EQ(to_text(diff_programs(waits, program("0SEND_F1 0RECV_B0", "")), 10),
            "rank 0: 2 changes in 7 actions\n"
            "  position 3: - (0SEND_F1;0RECV_B0)GROUP + 0SEND_F1 0RECV_B0\n"
            "  position 6: - 0STEP\n");
}

TEST(ProgramDiff, CountsWhatItDoesNotShow) {
  const std::string text = to_text(diff_programs(made("gpipe", 4, 16), made("1f1b", 4, 16)), 1);
  EXPECT_THAT(text, testing::HasSubstr("  and "));
}

// Compares edit scripts with a slow, simple table of longest common subsequences.

using Words = std::vector<std::string>;

std::size_t longest_common(const Words& a, const Words& b) {
  std::vector<std::vector<std::size_t>> best(a.size() + 1, std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      best[i][j] = a[i - 1] == b[j - 1] ? best[i - 1][j - 1] + 1 : std::max(best[i - 1][j], best[i][j - 1]);
    }
  }
  return best[a.size()][b.size()];
}

/// Returns the list that the script makes of `before`. Added words are taken from `after`. Words that the
/// script calls `same` must be equal in both lists.
Words applied(const std::vector<Edit>& script, const Words& before, const Words& after) {
  Words made;
  std::size_t x = 0;
  std::size_t y = 0;
  for (const Edit edit : script) {
    if (edit == Edit::same) {
      EXPECT_EQ(before.at(x), after.at(y));
    }
    if (edit != Edit::removed) made.push_back(after.at(y++));
    if (edit != Edit::added) ++x;
  }
  EXPECT_EQ(x, before.size());
  return made;
}

Words random_words(std::mt19937& random) {
  Words words(random() % 12);
  for (std::string& word : words) word = std::string(1, static_cast<char>('a' + random() % 4));
  return words;
}

TEST(EditScript, OfRandomListsIsRightAndShortest) {
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    const Words before = random_words(random);
    const Words after = random_words(random);
    const std::vector<Edit> script = edit_script(before, after);
    ASSERT_EQ(applied(script, before, after), after);
    EXPECT_EQ(std::ranges::count(script, Edit::same),
              static_cast<std::ptrdiff_t>(longest_common(before, after)));
  }
}

TEST(EditScript, OfListsThatDifferInTooMuchReplacesTheMiddle) {
  Words before{"first"};
  Words after{"first"};
  for (std::int32_t i = 0; i < kMostEdits; ++i) {
    before.push_back("b" + std::to_string(i));
    after.push_back("a" + std::to_string(i));
  }
  before.emplace_back("last");
  after.emplace_back("last");
  const std::vector<Edit> script = edit_script(before, after);
  EXPECT_EQ(applied(script, before, after), after);
  EXPECT_EQ(script.front(), Edit::same);
  EXPECT_EQ(script.back(), Edit::same);
  EXPECT_EQ(std::ranges::count(script, Edit::same), 2);
}

}  // namespace
}  // namespace penstock
