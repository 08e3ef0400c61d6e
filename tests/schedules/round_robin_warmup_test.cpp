// How far 1F1B-RR runs ahead of its first backward.

#include "schedules/rules/round_robin_warmup.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(RoundRobinWarmup, IsOneForwardPerLaterStageWithoutReplicas) {
  EXPECT_EQ(round_robin_warmup(4, 1), 3);
  EXPECT_EQ(round_robin_warmup(1, 1), 0);
}

TEST(RoundRobinWarmup, KeepsEachReplicaBusyUntilItsFirstMinibatchComesBack) {
  EXPECT_EQ(round_robin_warmup(7, 4), 1);
  EXPECT_EQ(round_robin_warmup(3, 1), 2);
  EXPECT_EQ(round_robin_warmup(2, 2), 0);
}

// ceil(workers / replicas), as the partitioner's paper has it.
TEST(RoundRobinWarmup, WithTheOneAtWorkIsAReplicasShareOfTheWorkersRoundedUp) {
  for (int replicas = 1; replicas <= 8; ++replicas) {
    for (int workers = replicas; workers <= 40; ++workers)
      EXPECT_EQ(round_robin_warmup(workers, replicas) + 1, (workers + replicas - 1) / replicas);
  }
}

}  // namespace
}  // namespace penstock
