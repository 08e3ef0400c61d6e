// Four tools that share nothing were given 1F1B with 1 ms forwards, 2 ms backwards and 316.5 us a transfer
// (16 MiB at 50 GiB/s and 4 us latency, one FIFO per ordered pair of ranks) and print the same makespans.

#include <cstdint>

#include <gtest/gtest.h>

#include "schedules/ir/channel.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

Experiment shared_case(std::int32_t stages, std::int32_t microbatches) {
  const Program program = *generate("1f1b", {.stages = stages, .microbatches = microbatches});
  const CostTable costs = uniform_costs(program, {.forward_ns = 1'000'000, .backward_ns = 2'000'000},
                                        {.activation = 16 << 20, .gradient = 16 << 20});
  return experiment_of(program, costs, uniform_links(stages, 50.0 * (1 << 30), 4'000));
}

TEST(Agreement, OneFOneBWithTransfersTakesWhatFourOtherToolsPrint) {
  EXPECT_EQ(makespan_ns(shared_case(8, 32)), 138'522'000);
  EXPECT_EQ(makespan_ns(shared_case(16, 128)), 513'822'000);
  EXPECT_EQ(makespan_ns(shared_case(64, 512)), 2'083'278'000);
  EXPECT_EQ(makespan_ns(shared_case(16, 1024)), 3'733'542'000);
}

TEST(Agreement, TheEventEngineAgreesAsNothingIsShared) {
  const Experiment experiment = shared_case(16, 128);
  EXPECT_FALSE(links_are_shared(experiment));
  EXPECT_EQ(event_simulation(experiment)->makespan_ns, 513'822'000);
}

TEST(Agreement, OneQueuePerPairOfRanksIsSlower) {
  Experiment experiment = shared_case(8, 32);
  experiment.channels.model = ChannelModel::pair;
  EXPECT_NEAR(static_cast<double>(makespan_ns(experiment)), 140.4e6, 0.05e6);
}

}  // namespace
}  // namespace penstock
