// Tests the backend `nccl` with forked processes, sockets and LibTorch's store. The first tests run whole
// schedules with traced modules, and compare every message, sum and gathered weight. In the other tests, a
// rank fails.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/local_run.hpp"
#include "backend/cuda/workers.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/process_fixture.hpp"
#include "tests/backend/standin/free/calls.hpp"
#include "tests/backend/standin/free/random_mishap.hpp"
#include "tests/backend/standin/gpu_runs.hpp"
#include "tests/backend/standin/traced_modules.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

constexpr std::chrono::seconds kDeadline(30);
constexpr Ns kForwardNs = 1'000'000;

struct Case {
  std::string name;  // the name of the test
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
  const GpuRun run = run_over_nccl(experiment, traced(experiment), 2, {.deadline = kDeadline});
  EXPECT_EQ(run.error, "");
  EXPECT_FALSE(has_children());
  EXPECT_EQ(open_files(), files_before);
  // No action is shorter than its cost, and the error of the clocks is some microseconds.
  EXPECT_GE(static_cast<double>(run.timeline.makespan_ns),
            0.98 * static_cast<double>(makespan_ns(experiment)));
}

TEST(StandInProcesses, GroupsOfTransfersTrainAsTheyMust) {
  Experiment experiment =
      traced_experiment("interleaved", {.stages = 2, .microbatches = 4, .virtual_stages = 2}, kForwardNs);
  experiment.program = *lower(*generate("interleaved", {.stages = 2, .microbatches = 4, .virtual_stages = 2}),
                              {.blocking = Blocking::batched});
  experiment.channels.blocking = Blocking::batched;
  const GpuRun run = run_over_nccl(experiment, traced(experiment), 2, {.deadline = kDeadline});
  EXPECT_EQ(run.error, "");
  EXPECT_GE(static_cast<double>(run.timeline.makespan_ns),
            0.98 * static_cast<double>(makespan_ns(experiment)));
}

TEST(StandInProcesses, ThatShareOneDeviceTrainAsTheyMust) {
  setenv("PENSTOCK_STANDIN_DEVICES", "1", 1);
  const Experiment experiment = traced_experiment("1f1b", {.stages = 4, .microbatches = 8}, kForwardNs);
  EXPECT_EQ(
      run_over_nccl(experiment, traced(experiment), 2, {.deadline = kDeadline, .ranks_per_gpu = 4}).error,
      "");
  unsetenv("PENSTOCK_STANDIN_DEVICES");
}

// The run ends before it forks the ranks, and says why they could not use a device. A death test in the
// thread-safe style runs its statement in a new process, so that no other test here starts CUDA before.
TEST(StandInProcesses, AreRefusedIfTheirParentHasStartedCuda) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Experiment experiment = traced_experiment("1f1b", {.stages = 2, .microbatches = 4}, kForwardNs);
  const MakeCudaModules make = [&](const std::vector<std::optional<CudaPlace>>& places) {
    EXPECT_TRUE(cuda_devices());
    return traced(experiment)(places);
  };
  EXPECT_EXIT(
      {
        std::cerr << run_over_nccl(experiment, make, 1, {.deadline = kDeadline}).error;
        std::exit(0);  // NOLINT(concurrency-mt-unsafe): no other thread runs
      },
      testing::ExitedWithCode(0),
      "nccl: no GPU can be used: cudaGetDeviceCount: cudaErrorInitializationError.*; a forked process gets "
      "this error if its parent has started CUDA");
}

/// More than a socket takes at once.
TEST(StandInProcesses, SendMessagesOfMebibytes) {
  const Experiment experiment = gpu_experiment("1f1b", 2, 4, Bytes{8} << 20);
  EXPECT_EQ(run_over_nccl(experiment, occupying(experiment), 1, {.deadline = kDeadline}).error, "");
}

INSTANTIATE_TEST_SUITE_P(Schedules, StandInProcesses, testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

// Tests forked ranks of which one is killed, stopped, or fails at one of its calls. This happens before it
// joins the others, while they connect, and in the middle of a run. All other ranks must end, the error must
// name the rank, its action and the ranks that wait for it, and no child may remain. The result must not
// depend on whether NCCL reports a lost peer.

using standin::Mishap;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::int32_t kLostAmong = 3;
constexpr Ns kForward = 2'000'000;
constexpr seconds kMostAfterIt(15);  // the largest time of a test in addition to the deadline

/// A call of a rank at which the failure happens.
struct Moment {
  std::string name;
  std::string call;
  int nth = 1;
  friend void PrintTo(const Moment& moment, std::ostream* out) { *out << moment.name; }
};

std::vector<Moment> moments() {
  return {{"BeforeItJoins", "cudaStreamCreateWithPriority"},
          {"WhileTheyMeetInTheStore", "ncclGetUniqueId"},
          {"WhileTheyOpenTheFirst", "ncclCommInitRankConfig"},
          {"WhileTheyConnect", "ncclCommInitRankConfig", 2},
          {"AtTheFirstMessage", "ncclSend"},
          {"InTheMiddle", "ncclSend", 5}};
}

Experiment one_f_one_b() {
  return traced_experiment("1f1b", {.stages = kLostAmong, .microbatches = 6}, kForward);
}

/// Returns the error of a run with a mishap.
std::string error_with(const Experiment& experiment, const Mishap& mishap) {
  standin::set_mishap(mishap);
  const std::ptrdiff_t files_before = open_files();
  const auto begin = steady_clock::now();
  const GpuRun run = run_over_nccl(experiment, traced(experiment), 1, {.deadline = deadline_with(mishap)});
  standin::set_mishap({});
  EXPECT_LT(steady_clock::now() - begin, 2 * deadline_with(mishap) + kMostAfterIt);
  EXPECT_FALSE(has_children());
  EXPECT_EQ(open_files(), files_before);
  return run.error;
}

class StandInLostRanks : public testing::TestWithParam<Moment> {};

TEST_P(StandInLostRanks, WhoIsKilledIsNamed) {
  for (const char* lost_peer : {"error", "silence"}) {
    setenv("PENSTOCK_STANDIN_LOST_PEER", lost_peer, 1);
    for (int rank = 0; rank < kLostAmong; ++rank) {
      const Mishap mishap{Mishap::Kind::killed, rank, GetParam().call, GetParam().nth};
      EXPECT_THAT(
          error_with(one_f_one_b(), mishap),
          ContainsRegex(fmt::format("^rank {}: .*: its process was killed by signal 9 \\(Killed\\); rank "
                                    "[0-2] (waits for it|needs its)",
                                    rank)))
          << lost_peer;
    }
  }
  unsetenv("PENSTOCK_STANDIN_LOST_PEER");
}

TEST_P(StandInLostRanks, WhoIsStoppedIsNamed) {
  const int rank = static_cast<int>(GetParam().name.size()) % kLostAmong;
  EXPECT_THAT(
      error_with(one_f_one_b(), {Mishap::Kind::stopped, rank, GetParam().call, GetParam().nth}),
      ContainsRegex(fmt::format("^rank {}: .*: its process is suspended and gave no sign of life for 1 s; "
                                "rank [0-2] (waits for it|needs its)",
                                rank)));
}

TEST_P(StandInLostRanks, WhatFailsIsNamedAndNotWhatOthersSeeOfIt) {
  for (int rank = 0; rank < kLostAmong; ++rank) {
    const std::string error =
        error_with(one_f_one_b(), {Mishap::Kind::fails, rank, GetParam().call, GetParam().nth});
    EXPECT_THAT(error, StartsWith(fmt::format("rank {}: ", rank)));
    EXPECT_THAT(error, HasSubstr(GetParam().call + ": "));
    EXPECT_THAT(error,
                ContainsRegex("(cudaErrorUnknown|ncclSystemError).*; rank [0-2] (waits for it|needs its)"));
  }
}

INSTANTIATE_TEST_SUITE_P(Moments, StandInLostRanks, testing::ValuesIn(moments()),
                         [](const auto& one) { return one.param.name; });

TEST(StandInRandomMishaps, OfForkedRanksAreNamed) {
  const std::vector<Experiment> experiments = {
      one_f_one_b(),
      traced_experiment("gpipe", {.stages = 2, .microbatches = 4, .data_parallel = 2}, kForward),
      traced_experiment("1f1b", {.stages = 2, .microbatches = 4, .data_parallel = 2, .sharding = 3},
                        kForward)};
  const std::uint32_t kills = kills_or(20);
  std::mt19937 random(11);
  std::uint32_t failures = 0;
  for (std::uint32_t seed = 0; seed < kills; ++seed) {
    const Experiment& experiment = experiments[seed % experiments.size()];
    const Mishap mishap = random_mishap(random, experiment.program.rank_count());
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, to_text(mishap)));
    const std::string error = error_with(experiment, mishap);
    if (error.empty()) continue;  // the run had ended before the mishap, or the failed call was not needed
    ++failures;
    EXPECT_THAT(error, StartsWith(fmt::format("rank {}: ", mishap.device)));
  }
  std::cout << "  " << failures << " of " << kills << " runs were hit\n";
  EXPECT_GE(failures, kills / 2);
}

}  // namespace
}  // namespace penstock
