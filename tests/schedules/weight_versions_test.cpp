// Tests which weights the schedules use. The expected values are those of the PipeDream papers. Also tests
// the analysis of unusual programs.

#include "schedules/check/validate.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/result/metrics.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Field;

WeightVersions versions_of(const std::string& schedule, const Shape& shape) {
  return weight_versions(*generate(schedule, shape));
}

auto every_stage_has(Staleness staleness, std::int32_t kept) {
  return Each(AllOf(Field(&StageVersions::forward, staleness), Field(&StageVersions::backward, staleness),
                    Field(&StageVersions::kept, kept)));
}

// From Narayanan et al., SOSP'19, section 3.3: stage s (counted from 1) of n uses weights that are n-s
// updates old.
TEST(WeightVersions, OfPipeDreamAreAsManyUpdatesOldAsStagesFollow) {
  for (std::int32_t stages = 1; stages <= 6; ++stages) {
    const WeightVersions found = versions_of("1f1b-rr", {.stages = stages, .microbatches = 2 * stages + 3});
    for (std::int32_t stage = 0; stage < stages; ++stage) {
      const auto& [updates, kept, forward, backward] = found.stages[static_cast<std::size_t>(stage)];
      const std::int32_t behind = stages - 1 - stage;
      EXPECT_EQ(forward, (Staleness{.least = 0, .most = behind}))
          << "the first minibatches meet fresh weights";
      EXPECT_EQ(backward, forward) << "stashed";
      EXPECT_EQ(kept, behind + 1);
      EXPECT_EQ(updates, 2 * stages + 3);
      for (std::int32_t m = behind; m < found.units; ++m) {
        EXPECT_EQ(found.at(stage, m).update - found.at(stage, m).forward, behind) << "in the steady state";
      }
    }
  }
}

// From the same section: with vertical sync, every stage uses weights that are n-1 updates old.
TEST(WeightVersions, OfVerticalSyncAreEquallyOldOnAllStages) {
  const WeightVersions found =
      versions_of("1f1b-rr", {.stages = 4, .microbatches = 12, .weights = WeightPolicy::vertical_sync});
  EXPECT_THAT(found.stages, every_stage_has({.least = 0, .most = 3}, 4));
  for (std::int32_t m = 3; m < found.units; ++m) {
    for (std::int32_t stage = 0; stage < 4; ++stage) EXPECT_EQ(found.at(stage, m).forward, m - 3);
  }
}

TEST(WeightVersions, WithoutStashingAreFreshInTheBackwardOnly) {
  const WeightVersions found =
      versions_of("1f1b-rr", {.stages = 4, .microbatches = 12, .weights = WeightPolicy::latest});
  for (std::int32_t stage = 0; stage < 4; ++stage) {
    const StageVersions& versions = found.stages[static_cast<std::size_t>(stage)];
    EXPECT_EQ(versions.forward, (Staleness{.least = 0, .most = 3 - stage}));
    EXPECT_EQ(versions.backward, (Staleness{.least = 0, .most = 0}));
    EXPECT_EQ(versions.kept, 1);
  }
}

// From Narayanan et al., ICML'21, section 3.1: W(t+1) = W(t) - lr grad(W(t-1)) on every stage, with two
// versions.
TEST(WeightVersions, OfTwoBufferedWeightsAreOneUpdateOldOnEveryStage) {
  for (std::int32_t stages = 1; stages <= 8; ++stages) {
    for (std::int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
      const WeightVersions found =
          versions_of("pipedream-2bw", {.stages = stages, .microbatches = microbatches, .iterations = 4});
      EXPECT_THAT(found.stages, every_stage_has({.least = 0, .most = 1}, 2))
          << "K=" << stages << " M=" << microbatches;
      for (std::int32_t unit = microbatches; unit < found.units; ++unit) {
        EXPECT_EQ(found.at(0, unit).update - found.at(0, unit).forward, 1) << "all but the first minibatch";
      }
    }
  }
}

TEST(WeightVersions, OfSynchronousSchedulesAreNeverStale) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (schedule.asynchronous || schedule.name == "pipedream-2bw") continue;
    for (const std::int32_t iterations : {1, 3}) {
      Shape shape{.stages = 4, .microbatches = 8, .iterations = iterations};
      shape.virtual_stages = chunks_to_try(schedule);
      EXPECT_THAT(versions_of(std::string(schedule.name), shape).stages,
                  every_stage_has({.least = 0, .most = 0}, 1))
          << schedule.name;
    }
  }
  EXPECT_THAT(versions_of("naive", {.stages = 4, .microbatches = 8, .update = UpdateRule::microbatch}).stages,
              every_stage_has({.least = 0, .most = 0}, 1));
}

// The simulator counts the versions of each rank over time. With one stage on a rank, this is the number for
// the stage.
TEST(WeightVersions, AreKeptAsTheSimulatorCountsThem) {
  for (std::int32_t stages = 1; stages <= 5; ++stages) {
    for (const WeightPolicy policy :
         {WeightPolicy::stash, WeightPolicy::vertical_sync, WeightPolicy::latest}) {
      const Program program =
          *generate("1f1b-rr", {.stages = stages, .microbatches = 3 * stages, .weights = policy});
      const Experiment experiment =
          experiment_of(program, unit_costs(program), uniform_links(stages, kUnlimitedBandwidth, 0));
      const Result result =
          summarize(*critical_path(experiment), {.program = experiment.program, .costs = experiment.costs});
      const WeightVersions found = weight_versions(program);
      for (const RankReport& rank : result.ranks) {
        EXPECT_EQ(found.stages[static_cast<std::size_t>(rank.rank)].kept, rank.weight_versions);
      }
    }
  }
}

Program program_of_list(const std::string& list) {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 2\niterations 2\nversions mixed\nupdate microbatch\n"
      "stage 0: rank 0\nrank 0: " +
          list + "\n",
      "it");
  EXPECT_TRUE(program) << program.error();
  const auto valid = validate(*program);
  EXPECT_TRUE(valid) << valid.error();
  return *program;
}

TEST(WeightVersions, OfSplitBackwardsCountBothHalves) {
  const WeightVersions found = weight_versions(program_of_list("0F0 0F1 0I0 0W0 0STEP 0I1 0W1@1 0STEP"));
  EXPECT_EQ(found.at(0, 1), (UnitVersions{.forward = 0, .backward = 0, .weight = 1, .update = 1}));
  EXPECT_EQ(found.stages[0].forward, (Staleness{.least = 0, .most = 1}));
  EXPECT_EQ(found.stages[0].backward, (Staleness{.least = 0, .most = 1}));
  EXPECT_EQ(found.stages[0].kept, 2) << "version 0 is still there for 0I1";
}

TEST(WeightVersions, OfAGradientBehindTheLastStepWaitForTheNextPass) {
  const WeightVersions found = weight_versions(program_of_list("0F0 0B0 0STEP 0F1 0B1"));
  EXPECT_EQ(found.at(0, 1), (UnitVersions{.forward = 0, .backward = 0, .weight = 0, .update = 1}));
}

TEST(WeightVersions, OfTheirForwardAreDemandedUnlessTheProgramSaysMixed) {
  Program program = program_of_list("0F0 0F1 0B0 0STEP 0B1@1 0STEP");
  EXPECT_TRUE(validate(program));
  program.mixed_versions = false;
  const auto refused = validate(program);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(),
              testing::HasSubstr("0B1 runs with weight version 1, must run with version 0 of its F"));
}

}  // namespace
}  // namespace penstock
