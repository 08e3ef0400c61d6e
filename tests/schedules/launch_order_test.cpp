// Tests the rule that operations of a rank start in the order of their launches, in addition to the channel
// model. The tests of tests/backend/standin compare this check with a model of NCCL. The second part tests
// the pass that defers receives.

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "tests/schedules/held_back.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

const ChannelOptions kFree{};
const ChannelOptions kOrdered{.launch_order = true};

std::optional<Hang> hang_of(const Program& program, const ChannelOptions& channels) {
  return find_hang(program, channels, unit_costs(program));
}

TEST(LaunchOrder, NamesTheReceiveThatHoldsTheSendBack) {
  const Program program = held_back();
  EXPECT_TRUE(validate(program));
  EXPECT_FALSE(hang_of(program, kFree));
  const auto hang = hang_of(program, kOrdered);
  ASSERT_TRUE(hang);
  EXPECT_EQ(
      hang->message,
      "hangs under directed channels, in launch order; each of these waits for the next, the last for the "
      "first:\n"
      "  rank 1, position 9: 1F3 waits for 1RECV_F3 on rank 1, position 8\n"
      "  rank 1, position 8: 1RECV_F3 waits for 0SEND_F3 on rank 0, position 10\n"
      "  rank 0, position 10: 0SEND_F3 waits for 0RECV_B2 on rank 0, position 8, launched before it\n"
      "  rank 0, position 8: 0RECV_B2 waits for 0RECV_B1 on rank 0, position 7, before it in its queue\n"
      "  rank 0, position 7: 0RECV_B1 waits for 1SEND_B1 on rank 1, position 11\n"
      "  rank 1, position 11: 1SEND_B1 waits for 1F3 on rank 1, position 9");
}

TEST(LaunchOrder, BothEnginesRefuseWhatHangs) {
  const Program program = held_back();
  const CostTable costs = uniform_costs(program, {.forward_ns = 10, .backward_ns = 20});
  Experiment experiment = experiment_of(program, costs, uniform_links(2, 1e9, 5));
  for (const Engine engine : {Engine::critical_path, Engine::event}) {
    experiment.channels = kFree;
    EXPECT_TRUE(run_engine(experiment, engine));
    experiment.channels = kOrdered;
    const auto run = run_engine(experiment, engine);
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().message, hang_of(program, kOrdered)->message);
  }
}

TEST(LaunchOrder, DeferredReceivesHoldNothingBack) {
  const Program late = defer_receives(held_back(), kOrdered, unit_costs(held_back()));
  EXPECT_TRUE(validate(late));
  EXPECT_NE(late, held_back());
  EXPECT_FALSE(hang_of(late, kOrdered));
}

// With a queue for each boundary, receives of one pair of ranks can be in different queues. But these
// receives are of the same boundary.
TEST(LaunchOrder, HoldsUnderEveryChannelModel) {
  int in_order_alone = 0;
  for (const ChannelModel model : kChannelModels) {
    ChannelOptions channels = kOrdered;
    channels.model = model;
    EXPECT_TRUE(hang_of(held_back(), channels)) << to_text(model);
    if (!hang_of(held_back(), {.model = model})) ++in_order_alone;
  }
  EXPECT_EQ(in_order_alone, 3) << "where SENDs and RECVs share a queue it hangs anyway";
}

// If RECVs and SENDs share a queue, SEND_F1 is launched after the RECV before it in the queue, and not
// directly after F1. An earlier launch would wait for a RECV that is launched later.
TEST(LaunchOrder, ASendIsLaunchedBehindTheReceiveBeforeItInItsQueue) {
  const auto program = parse_program(
      "penstock program 1\n"
      "schedule custom\n"
      "microbatches 2\n"
      "stage 0: rank 0\n"
      "stage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0RECV_B0 0SEND_F1 0B0 0RECV_B1 0B1 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP\n",
      "turns.psched");
  ASSERT_TRUE(program) << program.error();
  for (const ChannelModel model : kChannelModels) {
    ChannelOptions channels = kOrdered;
    channels.model = model;
    const auto hang = hang_of(*program, channels);
    EXPECT_FALSE(hang) << to_text(model) << ": " << hang->message;
  }
}

// With blocking channels, a rank waits in each message. No later launch of this rank can then be delayed.
TEST(LaunchOrder, AddsNothingToBlockingChannels) {
  const auto program = parse_program(
      "penstock program 1\n"
      "schedule custom\n"
      "microbatches 2\n"
      "edges 0>1 2>3 3>4 4>5\n"
      "stage 0: rank 0\n"
      "stage 1: rank 1\n"
      "stage 2: rank 0\n"
      "stage 3: rank 2\n"
      "stage 4: rank 1\n"
      "stage 5: rank 2\n"
      "rank 0: 0F0 0F1 2F0 2SEND_F0 0SEND_F0 0SEND_F1 2F1 2SEND_F1 2RECV_B0 2B0 2RECV_B1 2B1 0RECV_B0 0B0 "
      "0RECV_B1 0B1\n"
      "rank 1: 4RECV_F0 4F0 4SEND_F0 1RECV_F0 1F0 1RECV_F1 1F1 4RECV_F1 4F1 4SEND_F1 4RECV_B0 4B0 4SEND_B0 "
      "4RECV_B1 4B1 4SEND_B1 1B0 1SEND_B0 1B1 1SEND_B1\n"
      "rank 2: 3RECV_F0 3F0 3SEND_F0 5RECV_F0 5F0 3RECV_F1 3F1 3SEND_F1 5RECV_F1 5F1 5B0 5SEND_B0 3RECV_B0 "
      "3B0 3SEND_B0 5B1 5SEND_B1 3RECV_B1 3B1 3SEND_B1\n",
      "blocking.psched");
  ASSERT_TRUE(program) << program.error();
  EXPECT_TRUE(hang_of(*program, kOrdered));
  EXPECT_FALSE(hang_of(*program, {.blocking = Blocking::each}));
  EXPECT_FALSE(hang_of(*program, {.blocking = Blocking::each, .launch_order = true}));
}

TEST(LaunchOrder, NoScheduleOfTheTableHangs) {
  for (const ScheduleInfo& info : schedule_table()) {
    int taken = 0;
    for (const std::int32_t stages : {2, 4}) {
      for (const std::int32_t microbatches : {4, 8}) {
        const auto program =
            generate(info.name,
                     {.stages = stages, .microbatches = microbatches, .virtual_stages = chunks_to_try(info)});
        if (!program) continue;
        const auto hang = hang_of(*lower(*program), kOrdered);
        EXPECT_FALSE(hang) << info.name << " " << stages << " " << microbatches << "\n" << hang->message;
        ++taken;
      }
    }
    EXPECT_GT(taken, 0) << info.name;
  }
}

TEST(LaunchOrder, CollectivesOfReplicasAndShardsHoldNothingBack) {
  for (const Shape& shape : {Shape{.stages = 2, .microbatches = 4, .data_parallel = 2},
                             Shape{.stages = 2, .microbatches = 4, .data_parallel = 2, .buckets = {2}},
                             Shape{.stages = 2, .microbatches = 4, .iterations = 2, .data_parallel = 2},
                             Shape{.stages = 2, .microbatches = 4, .data_parallel = 2, .sharding = 3}}) {
    const auto program = generate("1f1b", shape);
    ASSERT_TRUE(program) << program.error();
    EXPECT_FALSE(hang_of(*lower(*program), kOrdered));
  }
}

// Tests that RECVs move to the actions that need them, unless that would make the program hang.

std::string list_of(const Program& program, std::size_t rank) {
  std::string text;
  for (const Action& action : program.ranks[rank]) text += (text.empty() ? "" : " ") + to_text(action);
  return text;
}

/// Returns GPipe on two ranks with all RECVs first.
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

// F takes 10, B takes 20, and a transfer takes 5. With early blocking receives, rank 1 starts F0 only after
// both messages have come, at 25 instead of 15.
TEST(DeferReceives, SavesTheWaitOfBlockingReceivesPostedTooEarly) {
  const Program early = receives_first();
  const CostTable costs = uniform_costs(early, {.forward_ns = 10, .backward_ns = 20});
  Experiment experiment = experiment_of(early, costs, uniform_links(2, 1e9, 5));
  experiment.channels.blocking = Blocking::each;
  const Ns before = makespan_ns(experiment);
  experiment.program = defer_receives(early, experiment.channels, costs);
  EXPECT_LT(makespan_ns(experiment), before);
}

TEST(DeferReceives, KeepsThoseWhoseMoveWouldHang) {
  // If 0RECV_B0 were moved, it would come after 0SEND_F1 in the only queue of the pair, and both ranks would
  // wait.
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
        for (const Blocking blocking : {Blocking::none, Blocking::each, Blocking::batched}) {
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
