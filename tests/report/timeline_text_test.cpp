// Tests timelines that are drawn with characters, and the table of actions.

#include "report/timeline/timeline_boxes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/program.hpp"
#include "tests/report/sample_result.hpp"

namespace penstock {
namespace {

using sample::pipeline;

constexpr Ns kMs = 1'000'000;

Action action(ActionKind kind, std::int32_t stage, std::int32_t microbatch) {
  return {.kind = kind, .stage = stage, .microbatch = microbatch};
}

/// Returns the length of the longest line, not counting the legend, which is not shortened.
std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("idle;") == std::string::npos) longest = std::max(longest, line.size());
  }
  return longest;
}

TEST(TimelineText, OneFOneBReadsAsInThePaper) {
  EXPECT_EQ(timeline_to_text(pipeline({.ranks = 3, .microbatches = 4})),
            "rank 0  F0-F1-F2-............B0====F3-B1====...B2====...B3====\n"
            "rank 1  ...F0-F1-......B0====F2-B1====F3-B2====...B3====......\n"
            "rank 2  ......F0-B0====F1-B1====F2-B2====F3-B3====............\n"
            "        |--------------|--------------|--------------|--------|\n"
            "        0              5 ms           10 ms          15 ms\n"
            "        F forward, B backward, . idle; 3 columns = 1 ms; numbers are microbatches\n");
}

TEST(TimelineText, MicrobatchesStandUnderTheLettersWhereAUnitHasOneColumn) {
  EXPECT_EQ(timeline_to_text(pipeline({.ranks = 2, .microbatches = 9}), {.columns = 40}),
            "rank 0  FF..B=FB=FB=FB=FB=FB=FB=FB=.B=\n"
            "        01  0 21 32 43 54 65 76 87  8\n"
            "rank 1  .FB=FB=FB=FB=FB=FB=FB=FB=FB=..\n"
            "         00 11 22 33 44 55 66 77 88\n"
            "        |---------|---------|---------|\n"
            "        0         10 ms     20 ms\n"
            "        F forward, B backward, . idle; 1 column = 1 ms\n"
            "        under the letters: microbatch (0-9, a-z, A-Z, then *)\n");
}

TEST(TimelineText, OneRankHasNoIdleTime) {
  EXPECT_EQ(timeline_to_text(pipeline({.ranks = 1, .microbatches = 2})),
            "rank 0  F0-B0====F1-B1====\n"
            "        |--------------|--|\n"
            "        0              5 ms\n"
            "        F forward, B backward, . idle; 3 columns = 1 ms; numbers are microbatches\n");
}

TEST(TimelineText, APairOfSeveralStagesNamesStagesAndBothLeaves) {
  Timeline timeline = {1, 9 * kMs, {}};
  Action first = action(ActionKind::forward, 0, 5);
  first.overlaps_next = true;
  timeline.spans = {sample::span_of(0, first, 0, 3 * kMs),
                    sample::span_of(0, action(ActionKind::backward, 3, 2), 0, 3 * kMs),
                    sample::span_of(0, action(ActionKind::backward_input, 0, 1), 3 * kMs, 6 * kMs),
                    sample::span_of(0, action(ActionKind::backward_weight, 0, 1), 6 * kMs, 9 * kMs)};
  const std::string text = timeline_to_text(timeline);
  EXPECT_EQ(text.substr(0, text.find('\n')), "rank 0  0F5;3B2#0I1=====0W1_____");
  EXPECT_NE(text.find("I backward for the input, W backward for the weights, # overlapped pair"),
            std::string::npos);
  EXPECT_NE(text.find("; 1F2 is microbatch 2 on stage 1\n"), std::string::npos);
}

TEST(TimelineText, AStackedPairOfOneColumnIsAHash) {
  Timeline timeline = {1, 60, {}};
  for (std::int32_t i = 0; i < 60; i += 2) {
    Action first = action(ActionKind::forward, 0, i);
    first.overlaps_next = true;
    timeline.spans.push_back(sample::span_of(0, first, i, i + 1));
    timeline.spans.push_back(sample::span_of(0, action(ActionKind::backward, 0, i), i, i + 1));
  }
  const std::string text = timeline_to_text(timeline, {.columns = 70});
  EXPECT_EQ(text.substr(0, 14), "rank 0  #.#.#.");
}

TEST(TimelineText, WhatTakesMostOfAColumnIsShownWhereTimeIsLong) {
  // The picture has 1000 units in 91 columns, so only the long boxes show their numbers.
  Timeline timeline = {1, 1000, {}};
  timeline.spans = {sample::span_of(0, action(ActionKind::forward, 0, 0), 0, 1),
                    sample::span_of(0, action(ActionKind::forward, 0, 1), 1, 99),
                    sample::span_of(0, action(ActionKind::backward, 0, 0), 500, 1000)};
  const std::string text = timeline_to_text(timeline);
  EXPECT_EQ(
      text.substr(0, text.find('\n')),
      "rank 0  F1-------....................................B0============================================");
  EXPECT_NE(text.find("1 column is about 10 ns"), std::string::npos);
}

TEST(TimelineText, WaitingForACollectiveIsNotDrawnAsIdle) {
  Timeline timeline = {2, 9 * kMs, {}};
  timeline.spans = {sample::span_of(0, action(ActionKind::unshard, 0, -1), 0, 2 * kMs),
                    sample::span_of(0, action(ActionKind::forward, 0, 0), 2 * kMs, 4 * kMs),
                    sample::span_of(0, action(ActionKind::backward, 0, 0), 4 * kMs, 6 * kMs),
                    sample::span_of(0, action(ActionKind::reduce_grad, 0, -1), 5 * kMs, 8 * kMs),
                    sample::span_of(1, action(ActionKind::forward, 1, 0), 0, 2 * kMs)};
  EXPECT_EQ(
      timeline_to_text(timeline),
      "rank 0  ^^^^F0--B0==++++..\n"
      "rank 1  F0--..............\n"
      "        |---------|-------|\n"
      "        0         5 ms\n"
      "        F forward, B backward, + idle while gradients are reduced, ^ idle while weights are gathered, "
      ". idle; 2 columns = 1 ms; numbers are microbatches\n");
}

TEST(TimelineText, SaysHowManyColumnsShowEveryAction) {
  const Timeline timeline = pipeline({.ranks = 8, .microbatches = 64, .forward_ns = 1'300'001});
  const auto needed = columns_for_every_action(timeline, 100);
  ASSERT_TRUE(needed);
  // The names of ranks take 8 columns, the axis is one column longer than the lines, and a column is as long
  // as the shortest action.
  EXPECT_EQ(*needed, 8 + 1 + timeline.makespan_ns / 1'300'001 + 1);
  const auto columns = static_cast<std::int32_t>(*needed);
  EXPECT_FALSE(columns_for_every_action(timeline, columns));
  const std::string text = timeline_to_text(timeline, {.columns = columns});
  EXPECT_EQ(std::ranges::count(text.substr(0, text.find('\n')), 'F'), 64) << text;
  EXPECT_LT(std::ranges::count(timeline_to_text(timeline).substr(0, 100), 'F'), 64);
}

TEST(TimelineText, NeedsNoMoreColumnsWhereEveryActionHasOne) {
  EXPECT_FALSE(columns_for_every_action(pipeline({.ranks = 4, .microbatches = 8}), 100));
  EXPECT_FALSE(columns_for_every_action(Timeline{}, 100));
  Timeline late = {1, Ns{8'000'000'000'000'000'000}, {}};
  late.spans = {sample::span_of(0, action(ActionKind::forward, 0, 0), 0, 1),
                sample::span_of(0, action(ActionKind::backward, 0, 0), 1, late.makespan_ns)};
  EXPECT_EQ(columns_for_every_action(late, 100), 9 + late.makespan_ns);
}

TEST(TimelineText, LinesKeepToTheWidth) {
  const Timeline timeline = pipeline({.ranks = 12, .microbatches = 100, .forward_ns = 1'300'001});
  for (const std::int32_t columns : {40, 77, 100, 213}) {
    EXPECT_LE(longest_line(timeline_to_text(timeline, {.columns = columns})),
              static_cast<std::size_t>(columns));
  }
  EXPECT_LE(longest_line(timeline_to_text(timeline, {.columns = -3})), 40U);
}

TEST(TimelineText, TickLabelsThatWouldTouchAreLeftOut) {
  Timeline timeline = {1, Ns{8'000'000'000'000'000'000}, {}};
  timeline.spans = {sample::span_of(0, action(ActionKind::forward, 0, 0), 0, timeline.makespan_ns)};
  timeline.spans.push_back(sample::span_of(0, action(ActionKind::backward, 0, 0), 123, 124));
  const std::string text = timeline_to_text(timeline, {.columns = 53});
  EXPECT_NE(text.find("\n        0          2000000000 s          6000000000 s\n"), std::string::npos)
      << text;
}

TEST(TimelineText, NothingThatTakesTimeIsSaidSo) {
  EXPECT_EQ(timeline_to_text({}), "0 ranks, 0 actions: nothing takes time, so there is nothing to draw\n");
  const Timeline instant = pipeline({.ranks = 2, .microbatches = 1, .forward_ns = 0, .backward_ns = 0});
  EXPECT_EQ(timeline_to_text(instant),
            "2 ranks, 4 actions: nothing takes time, so there is nothing to draw\n");
}

TEST(TimelineText, ColourChangesNothingButEscapes) {
  const Timeline timeline = pipeline({.ranks = 3, .microbatches = 4});
  std::string coloured = timeline_to_text(timeline, {.colours = TerminalColours::true_colour});
  EXPECT_NE(coloured.find("\x1b[38;2;"), std::string::npos);
  for (std::size_t at = coloured.find('\x1b'); at != std::string::npos; at = coloured.find('\x1b')) {
    coloured.erase(at, coloured.find('m', at) - at + 1);
  }
  EXPECT_EQ(coloured, timeline_to_text(timeline));
}

TEST(ActionGrid, HasAColumnARankAndOneEntryAPair) {
  Program program;
  Action first = action(ActionKind::forward, 0, 1);
  first.overlaps_next = true;
  program.ranks = {{action(ActionKind::forward, 0, 0), first, action(ActionKind::backward, 3, 0)},
                   {action(ActionKind::forward, 1, 0),
                    action(ActionKind::backward, 1, 0),
                    {.kind = ActionKind::step, .stage = 1}}};
  EXPECT_EQ(action_grid(program),
            "step  rank 0                rank 1\n"
            "   0  0F0                   1F0\n"
            "   1  (0F1;3B0)OVERLAP_F_B  1B0\n"
            "   2                        1STEP\n");
}

}  // namespace
}  // namespace penstock
