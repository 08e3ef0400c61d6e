// A call that fails, an operation that fails, and one that never ends: the run ends within its deadlines,
// says what failed where, and nobody is left waiting.

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace penstock
