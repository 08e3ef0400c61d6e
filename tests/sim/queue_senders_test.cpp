// When passes over a tape may leave queues out, and that they say what the walk says whether they do or not:
// messages hold their channels for just as long as the shortest action that sends, and for longer.

#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/channel.hpp"
#include "sim/engines/compile.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/lanes.hpp"
#include "sim/engines/queue_senders.hpp"
#include "sim/engines/tape.hpp"
#include "sim/network/message_costs.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

/// F of 3 ns and B of 5 ns on 4 ranks, whose messages hold their channels for so long.
struct HeldChannels {
  HeldChannels(const std::string& schedule, ChannelModel model, Ns hold_ns)
      : experiment(uniform_experiment(schedule, {.stages = 4, .microbatches = 8},
                                      {.forward_ns = 3, .backward_ns = 5, .latency_ns = 1})),
        channels{.model = model},
        flat(flatten(experiment.program, experiment.costs, {.channels = channels})),
        tape(compile(flat, channels).value()),
        costs(tape_costs(tape, experiment)),
        durations(walk_durations(experiment, flat)) {
    for (std::size_t link = 0; link < costs.links.size(); ++link) {
      if (tape.links[link].transfer != LinkClass::kNoTransfer) costs.links[link].hold_ns = hold_ns;
    }
    for (std::size_t message = 0; message < flat.messages.size(); ++message) {
      if (flat.messages[message].recv != kNone) durations.hold[message] = hold_ns;
    }
  }

  QueuesFollowed followed() const { return queues_followed(tape, costs.links, costs.durations); }
  Ns walked() const { return last_end(*walk(flat, durations, channels)); }

  Experiment experiment;
  ChannelOptions channels;
  FlatProgram flat;
  Tape tape;
  TapeCosts costs;
  WalkDurations durations;
};

TEST(QueueSenders, QueuesAreLeftOutUpToTheShortestActionThatSends) {
  EXPECT_EQ(HeldChannels("1f1b", ChannelModel::directed, 0).followed(), QueuesFollowed::none);
  EXPECT_EQ(HeldChannels("1f1b", ChannelModel::directed, 3).followed(), QueuesFollowed::none);
  EXPECT_EQ(HeldChannels("1f1b", ChannelModel::directed, 4).followed(), QueuesFollowed::one_end);
}

TEST(QueueSenders, QueuesThatSeveralRanksFillAreFollowed) {
  EXPECT_EQ(HeldChannels("1f1b", ChannelModel::pair, 0).followed(), QueuesFollowed::one_end);
  EXPECT_EQ(HeldChannels("1f1b", ChannelModel::rank, 0).followed(), QueuesFollowed::both_ends);
}

TEST(QueueSenders, AnyDurationsMayBeShort) {
  const HeldChannels held("1f1b", ChannelModel::directed, 1);
  EXPECT_EQ(queues_followed(held.tape, held.costs.links, {}), QueuesFollowed::one_end);
  const HeldChannels free("1f1b", ChannelModel::directed, 0);
  EXPECT_EQ(queues_followed(free.tape, free.costs.links, {}), QueuesFollowed::none);
}

TEST(QueueSenders, PassesSayWhatTheWalkSaysOnBothSidesOfTheLimit) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "interleaved", "zb-v", "dualpipe-v", "chimera"}) {
    for (const ChannelModel model : kChannelModels) {
      for (Ns hold_ns = 0; hold_ns <= 9; ++hold_ns) {
        const HeldChannels held(schedule, model, hold_ns);
        const Ns expected = held.walked();
        EXPECT_EQ(makespan_ns(held.tape, held.costs), expected) << schedule << ", held for " << hold_ns;
        EXPECT_EQ(makespans_ns(held.tape, {&held.costs, 1})[0], expected) << schedule;
      }
    }
  }
}

// One lane whose queues bind makes all of them follow theirs.
TEST(QueueSenders, LanesMayDiffer) {
  const HeldChannels free("1f1b", ChannelModel::directed, 0);
  const HeldChannels held("1f1b", ChannelModel::directed, 9);
  const std::vector<TapeCosts> tables = {free.costs, held.costs};
  const LaneTimes makespans = makespans_ns(free.tape, tables);
  EXPECT_EQ(makespans[0], free.walked());
  EXPECT_EQ(makespans[1], held.walked());
  EXPECT_GT(makespans[1], makespans[0]);
}

}  // namespace
}  // namespace penstock
