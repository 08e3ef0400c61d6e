// Copies of a whole pipeline as a scenario asks for them.

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/user_error.hpp"
#include "tests/scenarios/read_scenario.hpp"

namespace penstock {
namespace {

Experiment experiment_in(const std::string& text) {
  auto experiment = prepare(read_scenario(text));
  if (!experiment) throw std::runtime_error(experiment.error().message);
  return *std::move(experiment);
}

// 64 samples in microbatches of 4 are 16: eight for each copy of the pipeline.
TEST(DataParallel, CopiesShareTheMicrobatchesOfTheGlobalBatch) {
  const Experiment experiment = experiment_in(
      "schedule: {name: 1f1b, stages: 4, data_parallel: 2}\n"
      "training: {global_batch_size: 64, micro_batch_size: 4}\n");
  EXPECT_EQ(experiment.program.rank_count(), 8);
  EXPECT_EQ(experiment.program.stage_count(), 4);
  EXPECT_EQ(experiment.program.microbatches, 16) << "over all copies";
  EXPECT_EQ(experiment.cluster.device_count(), 8) << "as many as ranks";
}

// The links that the copies of a rank have to their neighbours say how long a transfer takes: here copies of
// a stage are on one node, so that every transfer of activations is between nodes.
TEST(DataParallel, SchedulesThatWeighCostsAreGivenThoseOfOneCopy) {
  const std::string model =
      "model: {stages: {forward: 1 ms, backward: 2 ms, activation: 10 MB, kept: 1 GiB}}\n"
      "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 100 GB/s,"
      " inter_bandwidth: 10 GB/s}\n";
  const Experiment one = experiment_in(
      model + "schedule: {name: zb-2p, stages: 2, microbatches: 6, memory_limit: [3 GiB, 2 GiB]}\n");
  const Experiment two = experiment_in(model +
                                       "schedule: {name: zb-2p, stages: 2, microbatches: 12, memory_limit: "
                                       "[3 GiB, 2 GiB], data_parallel: 2}\n");
  ASSERT_EQ(two.program.rank_count(), 4);
  const auto forwards_first = [](const Experiment& experiment, std::size_t rank) {
    std::int32_t count = 0;
    for (const Action& action : experiment.program.ranks[rank]) {
      if (action.kind == ActionKind::backward_input) break;
      count += action.kind == ActionKind::forward ? 1 : 0;
    }
    return count;
  };
  for (const std::size_t copy : {std::size_t{0}, std::size_t{1}}) {
    EXPECT_EQ(forwards_first(two, copy), forwards_first(one, 0)) << "the limit of rank 0 of the pipeline";
    EXPECT_EQ(forwards_first(two, 2 + copy), forwards_first(one, 1));
  }
}

TEST(DataParallel, RefusesMicrobatchesThatDoNotDivide) {
  const auto experiment =
      prepare(read_scenario("schedule: {name: gpipe, stages: 2, microbatches: 5, data_parallel: 2}"));
  ASSERT_FALSE(experiment);
  EXPECT_EQ(experiment.error().kind, ErrorKind::bad_input) << "bad input";
  EXPECT_NE(experiment.error().message.find("the nearest that work: 4 and 6"), std::string::npos);
}

}  // namespace
}  // namespace penstock
