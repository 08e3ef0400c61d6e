// Tests how SMs are divided among workers, and how many messages of a directed pair may be in flight. These
// tests need no GPU.

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "backend/cuda/local_transport.hpp"
#include "backend/cuda/workers.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/index.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

constexpr SmRules kHopper = {.total = 132, .least = 8, .alignment = 8};

std::string refusal(const SmRules& rules, std::int32_t workers) {
  const auto split = split_sms(rules, workers);
  return split ? "accepted" : split.error();
}

TEST(SmSplit, PartsAreEqualMultiplesOfTheAlignment) {
  using Row = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // workers, SMs each, spare
  for (const auto& [workers, each, spare] : std::vector<Row>{
           {1, 128, 4}, {2, 64, 4}, {3, 40, 12}, {4, 32, 4}, {5, 24, 12}, {8, 16, 4}, {16, 8, 4}}) {
    const auto split = split_sms(kHopper, workers);
    ASSERT_TRUE(split) << split.error();
    EXPECT_EQ(*split, (SmSplit{.workers = workers, .sms_each = each, .spare = spare})) << workers;
  }
}

TEST(SmSplit, APartIsNeverSmallerThanTheDeviceAllows) {
  const SmRules ampere = {.total = 108, .least = 4, .alignment = 2};
  EXPECT_EQ(split_sms(ampere, 27)->sms_each, 4);
  EXPECT_EQ(refusal(ampere, 28),
            "28 workers do not fit on a GPU of 108 SMs, whose partitions have 4 or more and a multiple of 2: "
            "take at most 27, or as many GPUs as workers");
  const SmRules uneven = {.total = 20, .least = 5, .alignment = 4};  // so the smallest partition has 8 SMs
  EXPECT_EQ(split_sms(uneven, 2)->sms_each, 8);
  EXPECT_NE(refusal(uneven, 3), "accepted");
}

TEST(SmSplit, TooManyWorkersAreRefusedWithTheMostThatFit) {
  EXPECT_EQ(refusal(kHopper, 17),
            "17 workers do not fit on a GPU of 132 SMs, whose partitions have 8 or more and a multiple of 8: "
            "take at most 16, or as many GPUs as workers");
  EXPECT_NE(refusal(kHopper, 0), "accepted");
}

TEST(SmSplit, ASharedSmIsNamed) {
  EXPECT_EQ(shared_sm({{0, 1}, {2, 3}, {4}}), "");
  EXPECT_EQ(shared_sm({{0, 1, 17}, {2, 3}, {4, 17}}), "partitions 0 and 2 both ran on SM 17");
  EXPECT_EQ(shared_sm({{5, 5}}), "") << "the same partition twice";
}

// Tests the number of messages of a directed pair that may be in flight.

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

// V-shaped schedules send activations and gradients on the same directed pair. The receiver uses them in
// another order than that of sending.
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
