// Calls fail, operations fail, and operations never end: the run ends within its deadlines, says what
// failed where, and no thread is left waiting.

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
#include "backend/nccl/communicator.hpp"
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

/// Each of the calls once, but for most of them in the ordinary run.
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
  // What fails while all is taken down may be good.
  EXPECT_GT(ended, tried / 2) << "of " << tried;
}

TEST(StandInFaults, ACallThatFailsOnceOverCopiesEndsTheRun) { fail_calls(false, Fault::Kind::once, 23); }
TEST(StandInFaults, ACallThatFailsOnceOverNcclEndsTheRun) { fail_calls(true, Fault::Kind::once, 23); }
TEST(StandInFaults, ADeviceThatFailsForGoodEndsTheRunOverCopies) {
  fail_calls(false, Fault::Kind::sticky, 97);
}
TEST(StandInFaults, ADeviceThatFailsForGoodEndsTheRunOverNccl) { fail_calls(true, Fault::Kind::sticky, 97); }

/// A peer that is gone, as NCCL says it: the operation was taken.
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

/// What happens on a stream long after its call has said success.
TEST(StandInFaults, AnOperationThatFailsIsNamedWithItsRank) {
  const Experiment experiment = small_experiment();
  const std::uint64_t operations = run(experiment, false, {}).operations;
  const Verdict verdict = run(experiment, false, {.kind = Fault::Kind::late, .n = operations - 60});
  EXPECT_TRUE(verdict.fault_met);
  EXPECT_THAT(verdict.answer, testing::HasSubstr("cudaErrorIllegalAddress")) << to_text(verdict);
  EXPECT_THAT(verdict.answer, testing::ContainsRegex("rank [01]: [01][FB]")) << to_text(verdict);
}

// Every wait of the host ends: by its deadline, and by the stop where there is one. What never ends here are
// operations of streams, one after the other; times are virtual.

using standin::controlled;
using standin::Fault;
using standin::Verdict;

constexpr double kMostSeconds = 120;  // deadlines follow one another: of an action 10 s, of ends 30 s each

Verdict held_run(const Experiment& experiment, bool over_nccl, const Fault& fault) {
  return controlled({.seed = 5, .devices = over_nccl ? experiment.program.rank_count() : 1, .fault = fault},
                    [&] {
                      const GpuRun done = over_nccl ? run_over_nccl(experiment, traced(experiment), 1)
                                                    : run_over_copies(experiment, traced(experiment), 1);
                      return done.error.empty() ? std::string("good") : done.error;
                    });
}

/// Of all operations of a run each `step`-th never ends.
void hold_operations(bool over_nccl, std::uint64_t step) {
  const Experiment experiment = small_experiment();
  const std::uint64_t operations = held_run(experiment, over_nccl, {}).operations;
  ASSERT_GT(operations, 100U);
  for (std::uint64_t n = 1; n < operations; n += step) {
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

/// How a run over NCCL with the mutant ends; by its deadlines.
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

// By the call's own deadline or the action's, whichever is first.
TEST(StandInWaits, CommunicatorsThatNeverConnectAreTooLate) {
  EXPECT_THAT(end_over_nccl("communicators stay in progress"),
              testing::ContainsRegex("did not end within|still running after 10 s; rank [01] needs its"));
}

// The run has been measured by then: they are aborted, and it is good.
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

/// What it throws: where the first operation of the device never ends, and somebody stops it after a second
/// or nobody does.
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
