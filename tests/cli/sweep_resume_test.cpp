// `sweep --resume` takes the rows of the same sweep and of no other: each thing that decides a point,
// changed, is another sweep; what decides none is not.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/transcript.hpp"
#include "tests/scratch_folder.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kScenario =
    "model: {stages: {forward: 2 ms, backward: 4 ms, kept: 1 GiB}}\n"
    "cluster: {preset: uniform, memory: 100 GiB}\n"
    "schedule: {name: gpipe, stages: 4, microbatches: 8}\n";

class SweepResume : public testing::Test {
 protected:
  /// Of the sweep that goes on from `points`.
  std::string outcome(const std::string& arguments) const {
    return outcome_of("penstock sweep " + arguments + " --resume points", folder_.path());
  }
  void expect_refusal(const std::string& arguments) const {
    const std::string printed = outcome(arguments);
    EXPECT_THAT(printed, HasSubstr("! penstock: points: the file is of another sweep")) << arguments;
    EXPECT_THAT(printed, HasSubstr("[exit 2]")) << arguments;
  }

  ScratchFolder folder_;
};

const std::string kSweep = "mem.yaml --schedule 1f1b,gpipe,zb-h1 --num-microbatches 2,4,8 --hold micro-batch";

TEST_F(SweepResume, GoesOnFromTheSameSweep) {
  folder_.write("mem.yaml", kScenario);
  const std::string first = outcome(kSweep);
  EXPECT_THAT(first, HasSubstr("8.00 GiB"));
  EXPECT_EQ(outcome(kSweep), first);
  folder_.write("mem.yaml", std::string("# a comment decides nothing\n") + kScenario);
  EXPECT_EQ(outcome(kSweep), first);
}

// One of nine rows needs more memory than there is now.
TEST_F(SweepResume, RefusesRowsOfAScenarioThatHasChanged) {
  folder_.write("mem.yaml", kScenario);
  outcome(kSweep);
  expect_refusal(kSweep + " --set cluster.memory=6GiB");
  std::string smaller = kScenario;
  smaller.replace(smaller.find("100 GiB"), 7, "6 GiB");
  folder_.write("mem.yaml", smaller);
  expect_refusal(kSweep);
  std::filesystem::remove(folder_.path() / "points");
  EXPECT_THAT(outcome(kSweep), HasSubstr("out of memory"));
}

TEST_F(SweepResume, RefusesRowsOfOtherFlags) {
  folder_.write("mem.yaml", kScenario);
  outcome(kSweep);
  for (const char* const flag : {"--iterations 2", "--data-parallel 2", "--channel pair", "--blocking",
                                 "--engine event", "--pp-size 2", "--micro-batch-size 2"})
    expect_refusal(kSweep + " " + flag);
  expect_refusal("mem.yaml --schedule 1f1b,zb-h1,gpipe --num-microbatches 2,4,8 --hold micro-batch");
  expect_refusal("mem.yaml --schedule 1f1b,gpipe,zb-h1 --num-microbatches 2,4,9 --hold micro-batch");
  EXPECT_THAT(outcome(kSweep), Not(HasSubstr("[exit")));
}

// The text of the scenario stays as it was.
TEST_F(SweepResume, RefusesRowsOfAFileThatTheScenarioNamesAndThatHasChanged) {
  folder_.write("named.yaml", "model: model.yaml\nschedule: {name: gpipe, stages: 2, microbatches: 4}\n");
  folder_.write("model.yaml", "stages: {forward: {file: forward.csv, unit: ms}, backward: 4 ms}\n");
  folder_.write("forward.csv", "1,2,3,4\n1,2,3,4\n");
  const std::string sweep = "named.yaml --schedule gpipe,1f1b";
  const std::string first = outcome(sweep);
  EXPECT_THAT(first, Not(HasSubstr("[exit"))) << first;
  EXPECT_EQ(outcome(sweep), first);
  folder_.write("forward.csv", "1,2,3,4\n1,2,3,5\n");
  expect_refusal(sweep);
  folder_.write("forward.csv", "1,2,3,4\n1,2,3,4\n");
  EXPECT_EQ(outcome(sweep), first);
  folder_.write("model.yaml", "stages: {forward: {file: forward.csv, unit: ms}, backward: 5 ms}\n");
  expect_refusal(sweep);
}

TEST_F(SweepResume, RefusesAScenarioThatCannotBeReadTwice) {
  folder_.write("mem.yaml", kScenario);
  EXPECT_THAT(
      outcome_of("cat mem.yaml | penstock sweep /dev/stdin --resume points", folder_.path()),
      HasSubstr("/dev/stdin: --resume and --shard read it twice: expected a file, got a pipe or a device; "
                "write it into a file"));
}

}  // namespace
}  // namespace penstock
