// Parts are taken away so that what is left of a sound program is sound.

#include "schedules/passes/excerpt.hpp"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/schedules/shapes.hpp"

namespace penstock {
namespace {

Excerpt excerpt_of(const std::string& schedule, const Shape& shape) {
  const Program program = *lower(*generate(schedule, shape));
  CostTable costs{.stages = unit_costs(program).stages, .edges = {}};
  for (const StageEdge& edge : stage_edges(program)) {
    costs.edges.push_back({.activation = 10 * (edge.from + 1), .gradient = edge.from + 1});
  }
  return {.program = program, .costs = costs};
}

/// The lists alone, a line a rank.
std::string lists(const Excerpt& excerpt) {
  const std::string text = to_text(excerpt.program);
  return text.substr(text.find("\nrank 0:") + 1);
}

/// Valid, and executable; which channels it needs may change, since two messages become one.
void expect_sound(const Excerpt& excerpt) {
  const auto valid = validate(excerpt.program);
  ASSERT_TRUE(valid) << valid.error() << to_text(excerpt.program);
  EXPECT_FALSE(find_hang(excerpt.program, {.model = ChannelModel::boundary}, excerpt.costs));
}

TEST(Excerpt, WithoutAStageTiesItsNeighboursTogether) {
  const Excerpt rest = without_stage(excerpt_of("gpipe", {.stages = 3, .microbatches = 1}), 1);
  EXPECT_EQ(lists(rest),
            "rank 0: 0F0 0SEND_F0 0RECV_B0 0B0 0STEP\n"
            "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1STEP\n");
  ASSERT_EQ(rest.costs.edges.size(), 1U);
  EXPECT_EQ(rest.costs.edges.front(), (EdgeCost{.activation = 20, .gradient = 2}))
      << "the larger message of the two";
  EXPECT_EQ(rest.costs.stages.size(), 2U);
}

TEST(Excerpt, WithoutAStageSendsFromWhereThatStageHadItsInput) {
  // Stages 0 and 2 on rank 0, 1 and 3 on rank 1: without stage 1, stages 0 and 2 are neighbours on one rank.
  const Excerpt whole = excerpt_of("interleaved", {.stages = 2, .microbatches = 1, .virtual_stages = 2});
  EXPECT_EQ(lists(without_stage(whole, 1)),
            "rank 0: 0F0 1F0 1SEND_F0 1RECV_B0 1B0 0B0 0STEP 1STEP\n"
            "rank 1: 2RECV_F0 2F0 2B0 2SEND_B0 2STEP\n");
  // A V: stages 0 and 3 on rank 0, 1 and 2 on rank 1.
  const Excerpt v = excerpt_of("1f1b-v", {.stages = 2, .microbatches = 1});
  EXPECT_EQ(lists(without_stage(v, 2)),
            "rank 0: 0F0 0SEND_F0 2RECV_F0 2F0 2B0 2SEND_B0 0RECV_B0 0B0 0STEP 2STEP\n"
            "rank 1: 1RECV_F0 1F0 1SEND_F0 1RECV_B0 1B0 1SEND_B0 1STEP\n");
}

TEST(Excerpt, WithoutALeafLeavesTheRestOfItsGroup) {
  const Program program = *parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\n"
      "rank 0: 0F0 (0F1;0B0)OVERLAP_F_B 0B1\n",
      "it");
  EXPECT_EQ(lists(without_microbatches({.program = program, .costs = unit_costs(program)}, 0)),
            "rank 0: 0F0 0B0\n");
  EXPECT_EQ(lists(without_action({.program = program, .costs = unit_costs(program)}, 0, 1)),
            "rank 0: 0F0 0B0 0B1\n");
}

TEST(Excerpt, WithoutAMicrobatchTakesAlongItsUpdate) {
  const Excerpt whole = excerpt_of("1f1b-rr", {.stages = 2, .microbatches = 4});
  EXPECT_EQ(lists(whole).substr(0, lists(whole).find('\n')),
            "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0STEP 0F2@1 0SEND_F2 0RECV_B1 0B1 0STEP 0F3@2 "
            "0SEND_F3 0RECV_B2 0B2@1 0STEP 0RECV_B3 0B3@2 0STEP");
  const Excerpt rest = without_microbatches(whole, 1);
  EXPECT_EQ(
      lists(rest).substr(0, lists(rest).find('\n')),
      "rank 0: 0F0 0SEND_F0 0RECV_B0 0B0 0STEP 0F1@1 0SEND_F1 0F2@1 0SEND_F2 0RECV_B1 0B1@1 0STEP 0RECV_B2 "
      "0B2@1 0STEP");
  expect_sound(rest);
}

TEST(Excerpt, OfEverySoundScheduleIsSound) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    SCOPED_TRACE(schedule.name);
    Shape shape{.stages = 4, .microbatches = 8};
    shape.virtual_stages = chunks_to_try(schedule);
    const Excerpt whole = excerpt_of(std::string(schedule.name), shape);
    for (std::int32_t stage = 0; stage < whole.program.stage_count(); ++stage) {
      expect_sound(without_stage(whole, stage));
    }
    for (std::int32_t rank = 0; rank < whole.program.rank_count(); ++rank) {
      if (whole.program.placement.stages[0].ranks.size() == 1) expect_sound(without_stages_of(whole, rank));
    }
    for (std::int32_t m = 0; m < whole.program.microbatches; ++m)
      expect_sound(without_microbatches(whole, m));
  }
}

TEST(Excerpt, WithoutAReplicaLosesItsMicrobatches) {
  const Excerpt whole = excerpt_of("data-parallel", {.stages = 2, .microbatches = 5, .replicas = {3}});
  const Excerpt rest = without_replicas_of(whole, 1);
  EXPECT_EQ(rest.program.rank_count(), 2);
  EXPECT_EQ(rest.program.microbatches, 3) << "0, 2 and 3 stay";
  EXPECT_EQ(lists(rest),
            "rank 0: 0F0 1F0 1B0 0B0 0F2 1F2 1B2 1REDUCE_GRAD 0B2 0REDUCE_GRAD 1STEP 0STEP\n"
            "rank 1: 0F1 1F1 1B1 1REDUCE_GRAD 0B1 0REDUCE_GRAD 1STEP 0STEP\n");
  expect_sound(rest);
}

TEST(Excerpt, WithoutASliceKeepsTheOthers) {
  const Excerpt rest =
      without_slice(excerpt_of("seq-1f1b", {.stages = 2, .microbatches = 2, .slices = 3}), 1);
  EXPECT_EQ(rest.program.slices, 2);
  EXPECT_EQ(rest.program.microbatches, 2);
  expect_sound(rest);
}

TEST(Excerpt, OfBrokenNumbersIsStillAProgram) {
  Program program = *generate("1f1b", {.stages = 2, .microbatches = 2});
  program.ranks[0][0].stage = 9;
  program.ranks[1][0].microbatch = 77;
  program.placement.stages[1].route = {5};
  const Excerpt whole{.program = program, .costs = unit_costs(program)};
  EXPECT_EQ(without_stage(whole, 0).program.ranks[0][0].stage, 8) << "beyond the last one stays beyond it";
  EXPECT_EQ(without_microbatches(whole, 0).program.ranks[1][0].microbatch, 76);
  program.microbatches = -1;
  EXPECT_EQ(without_slice({.program = program, .costs = unit_costs(program)}, 0).program.ranks,
            program.ranks);
}

}  // namespace
}  // namespace penstock
