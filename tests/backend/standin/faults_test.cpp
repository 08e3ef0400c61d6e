// Tests calls that fail, operations that fail, and operations that never end. The run must end within its
// deadlines and report the failure and its place. No thread may still wait.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/self_test.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/stream_queue.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/session.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "tests/backend/standin/gpu_runs.hpp"
#include "tests/backend/standin/traced_modules.hpp"
#include "tests/backend/standin/verdict.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using standin::controlled;
using standin::Fault;
using standin::Verdict;

Verdict run(const Experiment& experiment, bool over_nccl, const Fault& fault) {
  return controlled({.seed = 3, .devices = over_nccl ? experiment.program.rank_count() : 1, .fault = fault},
                    [&] {
                      const GpuRun done = over_nccl ? run_over_nccl(experiment, traced(experiment), 1)
                                                    : run_over_copies(experiment, traced(experiment), 1);
                      return done.error.empty() ? std::string("good") : done.error;
                    });
}

/// Lets each `step`-th call of a run fail, one call in each run.
void fail_calls(bool over_nccl, Fault::Kind kind, std::uint64_t step) {
  const Experiment experiment = small_experiment();
  const std::uint64_t calls = run(experiment, over_nccl, {}).calls;
  ASSERT_GT(calls, 100U);
  int tried = 0;
  int ended = 0;
  for (std::uint64_t n = 1; n < calls; n += step) {
    const Verdict verdict = run(experiment, over_nccl, {.kind = kind, .n = n});
    SCOPED_TRACE(fmt::format("call {}: {}", n, to_text(verdict)));
    ++tried;
    ended += verdict.answer != "good" ? 1 : 0;
    EXPECT_EQ(verdict.death, "");
    EXPECT_NE(verdict.answer, "hang");
    for (const std::string& defect : verdict.defects) EXPECT_THAT(defect, testing::StartsWith("leak"));
  }
  // A call that fails while resources are destroyed need not make the run fail.
  EXPECT_GT(ended, tried / 2) << "of " << tried;
}

TEST(StandInFaults, ACallThatFailsOnceOverCopiesEndsTheRun) { fail_calls(false, Fault::Kind::once, 23); }
TEST(StandInFaults, ACallThatFailsOnceOverNcclEndsTheRun) { fail_calls(true, Fault::Kind::once, 23); }
TEST(StandInFaults, ADeviceThatFailsForGoodEndsTheRunOverCopies) {
  fail_calls(false, Fault::Kind::sticky, 97);
}
TEST(StandInFaults, ADeviceThatFailsForGoodEndsTheRunOverNccl) { fail_calls(true, Fault::Kind::sticky, 97); }

/// NCCL reports a lost peer in this form: it accepts the operation, and the communicator fails later.
TEST(StandInFaults, ACommunicatorThatFailsAfterwardsEndsTheRun) {
  const Experiment experiment = small_experiment();
  bool is_met = true;
  int met = 0;
  for (std::uint64_t n = 1; is_met; ++n) {
    const Verdict verdict = run(experiment, true, {.kind = Fault::Kind::asynchronous, .n = n});
    is_met = verdict.fault_met;
    met += is_met ? 1 : 0;
    SCOPED_TRACE(fmt::format("operation {}: {}", n, to_text(verdict)));
    EXPECT_EQ(verdict.death, "");
    if (is_met) {
      EXPECT_THAT(verdict.answer, testing::HasSubstr("ncclRemoteError (6)"));
      EXPECT_THAT(verdict.answer, testing::ContainsRegex("communicator .* with rank"));
    }
    for (const std::string& defect : verdict.defects) EXPECT_THAT(defect, testing::StartsWith("leak"));
  }
  EXPECT_GT(met, 5);
}

TEST(StandInFaults, EveryErrorOfNcclHasItsName) {
  const std::vector<std::string> names = {"ncclUnhandledCudaError (1)", "ncclSystemError (2)",
                                          "ncclInternalError (3)",      "ncclInvalidArgument (4)",
                                          "ncclInvalidUsage (5)",       "ncclRemoteError (6)"};
  for (int error = 1; error <= 6; ++error) {
    const Fault first{.kind = Fault::Kind::once, .n = 1};
    const Verdict verdict = controlled({.nccl_error = error, .fault = first}, [] {
      try {
        static_cast<void>(new_unique_id());
      } catch (const NcclError& failed) {
        return std::string(failed.what());
      }
      return std::string("no error");
    });
    EXPECT_THAT(verdict.answer, testing::HasSubstr(names[static_cast<std::size_t>(error) - 1]));
  }
}

/// The operation fails on its stream long after its call returned success.
TEST(StandInFaults, AnOperationThatFailsIsNamedWithItsRank) {
  const Experiment experiment = small_experiment();
  const std::uint64_t operations = run(experiment, false, {}).operations;
  const Verdict verdict = run(experiment, false, {.kind = Fault::Kind::late, .n = operations - 60});
  EXPECT_TRUE(verdict.fault_met);
  EXPECT_THAT(verdict.answer, testing::HasSubstr("cudaErrorIllegalAddress")) << to_text(verdict);
  EXPECT_THAT(verdict.answer, testing::ContainsRegex("rank [01]: [01][FB]")) << to_text(verdict);
}

// Tests that every wait of the host ends at its deadline or at a stop. In each run, one operation of a stream
// never ends. Times are virtual.

using standin::controlled;
using standin::Fault;
using standin::Verdict;

// The sum of several deadlines: 10 s for an action, and 30 s for each end.
constexpr double kMostSeconds = 120;

Verdict held_run(const Experiment& experiment, bool over_nccl, const Fault& fault) {
  return controlled({.seed = 5, .devices = over_nccl ? experiment.program.rank_count() : 1, .fault = fault},
                    [&] {
                      const GpuRun done = over_nccl ? run_over_nccl(experiment, traced(experiment), 1)
                                                    : run_over_copies(experiment, traced(experiment), 1);
                      return done.error.empty() ? std::string("good") : done.error;
                    });
}

/// Lets each `step`-th operation of a run never end, one operation in each run.
void hold_operations(bool over_nccl, std::uint64_t step) {
  const Experiment experiment = small_experiment();
  const std::uint64_t operations = held_run(experiment, over_nccl, {}).operations;
  ASSERT_GT(operations, 100U);
  // The last operations are those of the waits before memory is freed. The measurement is then complete.
  constexpr std::uint64_t kLastWaits = 8;
  for (std::uint64_t n = 1; n < operations - kLastWaits; n += step) {
    const Verdict verdict = held_run(experiment, over_nccl, {.kind = Fault::Kind::never_ends, .n = n});
    SCOPED_TRACE(fmt::format("operation {}: {}", n, to_text(verdict)));
    EXPECT_EQ(verdict.death, "");
    EXPECT_NE(verdict.answer, "hang");
    EXPECT_NE(verdict.answer, "good");
    EXPECT_LT(verdict.seconds, kMostSeconds);
    for (const std::string& defect : verdict.defects) EXPECT_THAT(defect, testing::StartsWith("leak"));
  }
}

TEST(StandInWaits, ARunOverCopiesEndsWhateverDoesNot) {
  PENSTOCK_NEEDS_HOOKS();
  hold_operations(false, 7);
}
TEST(StandInWaits, ARunOverNcclEndsWhateverDoesNot) { hold_operations(true, 7); }

// A stream takes 1024 launches, and a thread that launches more is blocked: it sees neither a stop nor a
// deadline. Three actions of 300 kernels fit. Rank 0 of GPipe would launch six of them ahead of rank 1.
constexpr std::int32_t kKernels = 300;

Verdict run_with_many_kernels(bool over_nccl, const Fault& fault) {
  Experiment experiment = uniform_experiment("gpipe", {.stages = 2, .microbatches = 6},
                                             {.forward_ns = 1'000'000, .backward_ns = 2'000'000});
  for (StageCost& stage : experiment.costs.stages) stage.gradients = stage.weights = 64;
  for (EdgeCost& edge : experiment.costs.edges) edge = {.activation = 64, .gradient = 64};
  return controlled({.seed = 5, .devices = over_nccl ? 2 : 1, .fault = fault}, [&] {
    const GpuRun done = over_nccl ? run_over_nccl(experiment, traced(experiment, kKernels), 1)
                                  : run_over_copies(experiment, traced(experiment, kKernels), 1);
    return done.error.empty() ? std::string("good") : done.error;
  });
}

TEST(StandInWaits, ActionsOfManyKernelsNeverFillTheLaunchQueue) {
  for (const bool over_nccl : {false, true}) {
    const Verdict verdict = run_with_many_kernels(over_nccl, {});
    EXPECT_EQ(verdict.answer, "good") << to_text(verdict);
    EXPECT_EQ(verdict.blocked_launches, 0U) << to_text(verdict);
    EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
  }
}

TEST(StandInWaits, ARunOfActionsOfManyKernelsEndsWhateverDoesNot) {
  PENSTOCK_NEEDS_HOOKS();
  for (const bool over_nccl : {false, true}) {
    const std::uint64_t operations = run_with_many_kernels(over_nccl, {}).operations;
    ASSERT_GT(operations, 6000U);
    for (std::uint64_t n = operations / 12; n < operations; n += operations / 12) {
      const Verdict verdict = run_with_many_kernels(over_nccl, {.kind = Fault::Kind::never_ends, .n = n});
      SCOPED_TRACE(fmt::format("operation {}: {}", n, to_text(verdict)));
      EXPECT_EQ(verdict.death, "");
      EXPECT_NE(verdict.answer, "hang");
      EXPECT_NE(verdict.answer, "good");
      EXPECT_EQ(verdict.blocked_launches, 0U);
      EXPECT_LT(verdict.seconds, kMostSeconds);
    }
  }
}

/// Returns the result of a run over NCCL with this mutant. The run ends at its deadlines.
std::string end_over_nccl(const char* mutant) {
  const Experiment experiment = small_experiment();
  const Verdict verdict =
      controlled({.seed = 5, .devices = experiment.program.rank_count(), .mutant = mutant}, [&] {
        const GpuRun done = run_over_nccl(experiment, traced(experiment), 1);
        return done.error.empty() ? std::string("good") : done.error;
      });
  EXPECT_EQ(verdict.death, "") << to_text(verdict);
  EXPECT_LT(verdict.seconds, kMostSeconds) << to_text(verdict);
  return verdict.answer;
}

TEST(StandInWaits, CommunicatorsThatNeverOpenAreTooLate) {
  EXPECT_THAT(end_over_nccl("communicators never open"),
              testing::HasSubstr("ncclCommInitRankConfig did not end within"));
}

// The run ends at the deadline of the call or of the action, whichever is first.
TEST(StandInWaits, CommunicatorsThatNeverConnectAreTooLate) {
  EXPECT_THAT(end_over_nccl("communicators stay in progress"),
              testing::ContainsRegex("did not end within|still running after 10 s; rank [01] needs its"));
}

// The measurement is already complete, so the communicators are aborted and the run succeeds.
TEST(StandInWaits, CommunicatorsThatNeverCloseAreAborted) {
  EXPECT_EQ(end_over_nccl("communicators never close"), "good");
}

TEST(StandInWaits, ASelfTestEndsWhateverDoesNot) {
  const auto test = [](const Fault& fault) {
    return controlled({.seed = 5, .devices = 2, .fault = fault}, [] {
      try {
        const auto done = self_test();
        return done ? std::string(done->all_right() ? "right" : "wrong") : done.error();
      } catch (const std::exception& error) {
        return std::string(error.what());
      }
    });
  };
  const std::uint64_t operations = test({}).operations;
  ASSERT_GT(operations, 20U);
  for (std::uint64_t n = 1; n < operations; n += operations / 4) {
    const Verdict verdict = test({.kind = Fault::Kind::never_ends, .n = n});
    EXPECT_THAT(verdict.answer, testing::HasSubstr("did not end it within")) << n << ": " << to_text(verdict);
    EXPECT_LT(verdict.seconds, kMostSeconds) << n;
  }
}

/// Returns the exception text of `waits` if the first operation of the device never ends. If `is_stopped` is
/// true, the wait is stopped after a second.
std::string end_of(const std::function<void(const std::function<bool()>& stopped)>& waits, bool is_stopped) {
  const Verdict verdict = controlled({.fault = {.kind = Fault::Kind::never_ends, .n = 1}}, [&] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    try {
      waits([&] { return is_stopped && std::chrono::steady_clock::now() > until; });
    } catch (const Stopped&) {
      return std::string("stopped");
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("ended");
  });
  return verdict.seconds < (is_stopped ? 3 : 40) ? verdict.answer : to_text(verdict);
}

TEST(StandInWaits, ComparingTheClocksIsStoppedOrTooLate) {
  const auto compares = [](const std::function<bool()>& stopped) {
    const CudaStream stream(0, CudaStream::Priority::normal);
    const SteadyClock clock;
    const DeviceTime time(clock, 1, stream.view(), stopped);
  };
  EXPECT_EQ(end_of(compares, true), "stopped");
  EXPECT_THAT(end_of(compares, false), testing::StartsWith("the GPU did not end it within"));
}

TEST(StandInWaits, TheFirstUseOfABufferIsStoppedOrTooLate) {
  const auto makes = [](const std::function<bool()>& stopped) { const DeviceBuffer buffer(0, 64, stopped); };
  EXPECT_EQ(end_of(makes, true), "stopped");
  EXPECT_THAT(end_of(makes, false), testing::StartsWith("the GPU did not end it within 30 s"));
}

}  // namespace
}  // namespace penstock
