// The least that the stand-in has to do: the backend as it is runs a whole schedule, the same for one seed,
// near the predicted time.

#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/backend/standin/gpu_runs.hpp"
#include "tests/backend/standin/verdict.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using standin::controlled;
using standin::Verdict;

/// The makespan in ns, or the failure.
std::string makespan_of(const GpuRun& run) {
  return run.error.empty() ? fmt::format("{}", run.timeline.makespan_ns) : "failed: " + run.error;
}

Verdict over_copies(const Experiment& experiment, std::uint64_t seed) {
  return controlled({.seed = seed},
                    [&] { return makespan_of(run_over_copies(experiment, occupying(experiment), 2)); });
}

Verdict over_nccl(const Experiment& experiment, std::uint64_t seed) {
  return controlled({.seed = seed, .devices = experiment.program.rank_count()},
                    [&] { return makespan_of(run_over_nccl(experiment, occupying(experiment), 2)); });
}

void expect_good(const Verdict& verdict, Ns predicted) {
  SCOPED_TRACE(to_text(verdict));
  EXPECT_EQ(verdict.death, "");
  EXPECT_TRUE(verdict.defects.empty());
  ASSERT_EQ(verdict.answer.find_first_not_of("0123456789"), std::string::npos);
  EXPECT_NEAR(std::stod(verdict.answer) / static_cast<double>(predicted), 1, 0.01);
}

TEST(StandIn, OneFOneBRunsOverCopiesAndOverNccl) {
  const Experiment experiment = gpu_experiment("1f1b", 2, 4);
  const Ns predicted = makespan_ns(experiment);
  expect_good(over_copies(experiment, 1), predicted);
  expect_good(over_nccl(experiment, 1), predicted);
}

TEST(StandIn, OneSeedIsOneRunAndTwoSeedsAreTwo) {
  const Experiment experiment = gpu_experiment("1f1b", 2, 4);
  for (const auto& over : {over_copies, over_nccl}) {
    const Verdict first = over(experiment, 7);
    const Verdict again = over(experiment, 7);
    const Verdict other = over(experiment, 8);
    EXPECT_EQ(first.trace, again.trace);
    EXPECT_EQ(first.answer, again.answer);
    EXPECT_EQ(first.switches, again.switches);
    EXPECT_NE(first.trace, other.trace);
  }
}

}  // namespace
}  // namespace penstock
