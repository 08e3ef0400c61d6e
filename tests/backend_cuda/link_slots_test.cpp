// How many messages of a directed pair may be on their way: a decision, without a GPU.

#include <algorithm>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "backend/cuda/link_slots.hpp"
#include "backend/cuda/local_transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/index.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

FlatProgram flat_of(const std::string& schedule, std::int32_t stages, std::int32_t microbatches) {
  const Experiment experiment =
      uniform_experiment(schedule, {.stages = stages, .microbatches = microbatches}, {});
  return flatten(experiment.program, experiment.costs, {.channels = local_channels()});
}

TEST(LinkSlots, ADirectedPairNeedsNoMoreThanItsMessages) {
  const LinkSlots slots = link_slots(flat_of("naive", 2, 1));
  EXPECT_EQ(slots.count, (std::map<LinkSlots::Edge, std::int32_t>{{{0, 1}, 1}, {{1, 0}, 1}}));
  EXPECT_EQ(slots.next, (std::vector<std::int32_t>{kNone, kNone}));
}

TEST(LinkSlots, OneFOneBNeedsFewHoweverManyMicrobatchesThereAre) {
  const std::int32_t of_few = link_slots(flat_of("1f1b", 4, 8)).count.at({0, 1});
  EXPECT_EQ(link_slots(flat_of("1f1b", 4, 64)).count.at({0, 1}), of_few);
  EXPECT_LE(of_few, 6);
}

// A V sends activations and gradients along one directed pair, and takes them in another order than they
// come.
TEST(LinkSlots, ASlotIsNotUsedAgainBeforeItsMessageCanHaveBeenTaken) {
  for (const char* schedule : {"1f1b", "gpipe", "zb-v", "dualpipe-v", "chimera"}) {
    const FlatProgram flat = flat_of(schedule, 4, 8);
    const LinkSlots slots = link_slots(flat);
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(flat.messages.size()); ++id) {
      const FlatMessage& message = flat.messages[index(id)];
      if (message.recv == kNone) continue;
      EXPECT_LT(slots.slot[index(id)], slots.count.at({message.from_rank, message.to_rank}));
      const std::int32_t next = slots.next[index(id)];
      if (next == kNone) continue;
      EXPECT_EQ(slots.slot[index(next)], slots.slot[index(id)]);
      EXPECT_EQ(flat.messages[index(next)].to_rank, message.to_rank);
    }
  }
}

}  // namespace
}  // namespace penstock
