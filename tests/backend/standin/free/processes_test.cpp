// `nccl` as the product runs it, with processes, sockets and LibTorch's store: whole schedules with traced
// modules, whose every message, sum and gathered weight is compared.

#include <chrono>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "schedules/ir/shape.hpp"
#include "tests/backend/process_fixture.hpp"
#include "tests/backend/standin/gpu_runs.hpp"
#include "tests/backend/standin/traced_modules.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

constexpr std::chrono::seconds kDeadline(30);
constexpr Ns kForwardNs = 1'000'000;

struct Case {
  std::string name;  // of the test
  std::string schedule;
  Shape shape;
  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};

std::vector<Case> cases() {
  return {
      {"OneFOneB2", "1f1b", {.stages = 2, .microbatches = 4}},
      {"OneFOneB4", "1f1b", {.stages = 4, .microbatches = 8}},
      {"Interleaved", "interleaved", {.stages = 2, .microbatches = 4, .virtual_stages = 2}},
      {"ZbH1", "zb-h1", {.stages = 4, .microbatches = 4}},
      {"GpipeOfReplicas", "gpipe", {.stages = 2, .microbatches = 4, .data_parallel = 2}},
      {"SumsThatAreScattered", "1f1b", {.stages = 2, .microbatches = 4, .data_parallel = 2, .sharding = 2}},
      {"WeightsThatAreGathered", "1f1b", {.stages = 2, .microbatches = 4, .data_parallel = 2, .sharding = 3}},
  };
}

class StandInProcesses : public testing::TestWithParam<Case> {};

TEST_P(StandInProcesses, TrainAsTheyMust) {
  const Experiment experiment = traced_experiment(GetParam().schedule, GetParam().shape, kForwardNs);
  const std::ptrdiff_t files_before = open_files();
  const GpuRun run = run_over_nccl(experiment, traced(experiment), 2, kDeadline);
  EXPECT_EQ(run.error, "");
  EXPECT_FALSE(has_children());
  EXPECT_EQ(open_files(), files_before);
  // No action is shorter than its costs say, and clocks are right to some microseconds.
  EXPECT_GE(static_cast<double>(run.timeline.makespan_ns),
            0.98 * static_cast<double>(makespan_ns(experiment)));
}

/// More than a socket takes at once.
TEST(StandInProcesses, SendMessagesOfMebibytes) {
  const Experiment experiment = gpu_experiment("1f1b", 2, 4, Bytes{8} << 20);
  EXPECT_EQ(run_over_nccl(experiment, occupying(experiment), 1, kDeadline).error, "");
}

INSTANTIATE_TEST_SUITE_P(Schedules, StandInProcesses, testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace penstock
