// RECVs move to where they are needed, unless that hangs.

#include "schedules/passes/defer_receives.hpp"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

std::string list_of(const Program& program, std::size_t rank) {
  std::string text;
  for (const Action& action : program.ranks[rank]) text += (text.empty() ? "" : " ") + to_text(action);
  return text;
}

/// GPipe on two ranks, all RECVs first.
Program receives_first() {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0RECV_B1 0B0 0B1 0STEP\n"
      "rank 1: 1RECV_F0 1RECV_F1 1F0 1F1 1B0 1SEND_B0 1B1 1SEND_B1 1STEP\n",
      "receives_first.psched");
  EXPECT_TRUE(program) << program.error();
  return *program;
}

TEST(DeferReceives, PutsEachReceiveBeforeWhatNeedsIt) {
  const Program late = defer_receives(receives_first(), {}, unit_costs(receives_first()));
  EXPECT_EQ(list_of(late, 0), "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP");
  EXPECT_EQ(list_of(late, 1), "1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1 1STEP");
}

// F 10, B 20, a transfer 5. Blocking, rank 1 starts F0 when both have come: 25 instead of 15.
TEST(DeferReceives, SavesTheWaitOfBlockingReceivesPostedTooEarly) {
  const Program early = receives_first();
  const CostTable costs = uniform_costs(early, {.forward_ns = 10, .backward_ns = 20});
  Experiment experiment = experiment_of(early, costs, uniform_links(2, 1e9, 5));
  experiment.channels.blocking = true;
  const Ns before = makespan_ns(experiment);
  experiment.program = defer_receives(early, experiment.channels, costs);
  EXPECT_LT(makespan_ns(experiment), before);
}

TEST(DeferReceives, KeepsThoseWhoseMoveWouldHang) {
  // Moved, 0RECV_B0 would stand behind 0SEND_F1 in the one queue of the pair, and both ranks would wait.
  const Program lowered = *lower(*generate("1f1b", {.stages = 2, .microbatches = 3}));
  const ChannelOptions pair = {.model = ChannelModel::pair};
  const Program late = defer_receives(lowered, pair, unit_costs(lowered));
  EXPECT_FALSE(find_hang(late, pair, unit_costs(late)));
  EXPECT_TRUE(validate(late));
}

TEST(DeferReceives, HangsNowhereAndStaysValidForEverySchedule) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    int taken = 0;
    for (const std::int32_t stages : {1, 2, 4}) {
      const auto program = generate(
          schedule.name, {.stages = stages, .microbatches = 8, .virtual_stages = chunks_to_try(schedule)});
      if (!program) continue;
      ++taken;
      const Program lowered = *lower(*program);
      for (const ChannelModel model : kChannelModels) {
        for (const bool blocking : {false, true}) {
          const ChannelOptions channels = {.model = model, .blocking = blocking};
          const Program late = defer_receives(lowered, channels, unit_costs(lowered));
          SCOPED_TRACE(testing::Message() << schedule.name << " K=" << stages << " " << to_text(model));
          EXPECT_TRUE(validate(late));
          EXPECT_FALSE(find_hang(late, channels, unit_costs(late)));
          for (std::size_t rank = 0; rank < late.ranks.size(); ++rank) {
            EXPECT_EQ(late.ranks[rank].size(), lowered.ranks[rank].size());
          }
        }
      }
    }
    EXPECT_GT(taken, 0) << schedule.name;
  }
}

TEST(DeferReceives, ReturnsAProgramThatHangsAnywayAsItIs) {
  const auto hanging = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP\n",
      "crossed.psched");
  ASSERT_TRUE(hanging);
  const ChannelOptions pair = {.model = ChannelModel::pair};
  EXPECT_EQ(defer_receives(*hanging, pair, unit_costs(*hanging)), *hanging);
}

}  // namespace
}  // namespace penstock
