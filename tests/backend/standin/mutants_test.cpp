// Tests that the stand-in finds each mechanism of the GPU backend that is broken on purpose (a mutant). The
// mutant changes the calls under the backend. The effect is the same as if the backend had omitted the call,
// made it with a wrong argument, or made it too early.
//
// Some mutants are not in the lists, because no run differs from a correct run. Examples: a cudaFree that
// does not wait for its device, because all work on the memory has ended before; a second cudaSetDevice of
// the current device; an event that is created at another time outside the timed part; a first message of a
// size class that is already connected; a wait for an event that another wait of the same stream already
// covers.

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "tests/backend/standin/gpu_runs.hpp"
#include "tests/backend/standin/traced_modules.hpp"
#include "tests/backend/standin/verdict.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using standin::controlled;
using standin::Verdict;

constexpr std::uint64_t kSeeds = 4;

struct Mutant {
  const char* name;   // the name of the mutant in the stand-in
  const char* found;  // a part of the message that reports the mutant
};

/// The mutants that are found on both transports.
const std::vector<Mutant> kMutants = {
    {"events hold nothing back", "race"},
    {"an event holds back what its record before the last did", "race"},
    {"events say that they have passed", "race"},
    {"an event is recorded on another stream", "race"},
    {"memory is freed twice", "freed before"},
    {"memory is never freed", "leak"},
    {"events are never destroyed", "leak"},
    {"copies are a byte short", ""},
    {"launches fail in silence", ""},
    {"an event is made for each record", "made inside the timed part"},
    {"the host waits for each record", "waits inside the timed part"},
    {"memory is freed while a copy out of it is on its way", "touches freed memory"},
    {"a message's memory is given back at its send", "race"},
    {"a stamp is read before its event has passed", "race"},
};

/// The mutants that are found with the transport by copies.
const std::vector<Mutant> kMutantsOfCopies = {
    {"a slot is used again at once", "race"},
    {"green streams have no flag", "cuGreenCtxStreamCreate"},
    {"green contexts have no flag", "cuGreenCtxCreate"},
    {"driver functions are those of 11.0", "the driver has no"},
    {"a copy is not waited for", "race"},
};

/// The mutants that are found with the transport over NCCL.
const std::vector<Mutant> kMutantsOfNccl = {
    {"send and receive swapped", ""},
    {"sizes differ", "meets"},
    {"a receive is left out", ""},
    {"communicators stay in progress", ""},
    {"communicators are never closed", "leak"},
    {"the wrong device is current", "device"},
    {"priorities are swapped", "without high priority"},
    {"only the first tensor is added", "of stage"},
};

Experiment small(const Shape& shape) {
  Experiment made = uniform_experiment("1f1b", shape, {.forward_ns = 1'000'000, .backward_ns = 2'000'000});
  for (StageCost& stage : made.costs.stages) stage.gradients = stage.weights = 64;
  for (EdgeCost& edge : made.costs.edges) edge = {.activation = 64, .gradient = 64};
  return made;
}

Verdict run(const std::string& mutant, bool over_nccl, std::uint64_t seed) {
  const Experiment experiment = small({.stages = 2, .microbatches = 6, .data_parallel = 2});
  return controlled(
      {.seed = seed, .devices = over_nccl ? experiment.program.rank_count() : 1, .mutant = mutant}, [&] {
        const GpuRun done = over_nccl ? run_over_nccl(experiment, traced(experiment), 2)
                                      : run_over_copies(experiment, traced(experiment), 2);
        return done.error.empty() ? std::string("good") : done.error;
      });
}

bool is_good(const Verdict& verdict) {
  return verdict.answer == "good" && verdict.defects.empty() && verdict.death.empty() &&
         verdict.timed_waits == 0 && verdict.timed_allocations == 0;
}

/// Returns the message of the first seed that finds the mutant, or an empty text if no seed finds it.
std::string found_by(const Mutant& mutant, bool over_nccl) {
  std::string said;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Verdict verdict = run(mutant.name, over_nccl, seed);
    if (!is_good(verdict)) said += to_text(verdict) + '\n';
  }
  return said;
}

TEST(StandInMutants, NothingIsFoundWhereNothingIsBroken) {
  for (const bool over_nccl : {false, true}) {
    const Verdict verdict = run("", over_nccl, 1);
    EXPECT_TRUE(is_good(verdict)) << to_text(verdict);
  }
}

TEST(StandInMutants, EachIsFoundOverCopies) {
  PENSTOCK_NEEDS_HOOKS();
  std::vector<Mutant> all = kMutants;
  all.insert(all.end(), kMutantsOfCopies.begin(), kMutantsOfCopies.end());
  for (const Mutant& mutant : all) {
    const std::string said = found_by(mutant, false);
    EXPECT_NE(said, "") << mutant.name;
    EXPECT_THAT(said, testing::HasSubstr(mutant.found)) << mutant.name;
  }
}

TEST(StandInMutants, EachIsFoundOverNccl) {
  PENSTOCK_NEEDS_HOOKS();
  std::vector<Mutant> all = kMutants;
  all.insert(all.end(), kMutantsOfNccl.begin(), kMutantsOfNccl.end());
  for (const Mutant& mutant : all) {
    const std::string said = found_by(mutant, true);
    EXPECT_NE(said, "") << mutant.name;
    EXPECT_THAT(said, testing::HasSubstr(mutant.found)) << mutant.name;
  }
}

// NCCL connects ranks at their first operation of a kind, and a scattered sum is a kind of its own.
TEST(StandInMutants, ASumThatIsFirstScatteredInTheTimedPartIsFound) {
  const Experiment experiment = small({.stages = 2, .microbatches = 6, .data_parallel = 2, .sharding = 2});
  const auto allocations = [&](const std::string& mutant) {
    return controlled({.seed = 1, .devices = experiment.program.rank_count(), .mutant = mutant},
                      [&] { return run_over_nccl(experiment, occupying(experiment), 1).error; })
        .timed_allocations;
  };
  EXPECT_EQ(allocations(""), 0U);
  EXPECT_GT(allocations("no greeting by reduce-scatter"), 0U);
}

// There is only one run, because the first of two runs would make the connections for the second.
TEST(StandInMutants, ConnectionsOfTheFirstStepAreFound) {
  const Experiment experiment = small({.stages = 2, .microbatches = 6, .data_parallel = 2});
  const auto allocations = [&](const std::string& mutant) {
    return controlled({.seed = 1, .devices = experiment.program.rank_count(), .mutant = mutant},
                      [&] { return run_over_nccl(experiment, occupying(experiment), 1).error; })
        .timed_allocations;
  };
  EXPECT_EQ(allocations(""), 0U);
  EXPECT_GT(allocations("connections are made at the first step"), 0U);
}

}  // namespace
}  // namespace penstock
