// Shards of a sweep, each made by a process of its own, and what --merge makes of their files: the bytes that
// one process writes.

#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/transcript.hpp"
#include "tests/schedules/text_files.hpp"
#include "tests/scratch_folder.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::Not;

// Of its points one runs, one hangs, and the schedule does not take the others.
constexpr const char* kMergedScenario =
    "model: {stages: {forward: 2 ms, backward: 4 ms, kept: 1 GiB}}\n"
    "cluster: {preset: uniform, memory: 6 GiB}\n"
    "schedule: {name: gpipe, stages: 2, microbatches: 8, replicas: [1, 4], warmup: [0, 1]}\n";
constexpr const char* kMergedSweep =
    "penstock sweep mem.yaml --schedule 1f1b,interleaved,1f1b-rr --virtual-stages 1,2 "
    "--num-microbatches 2,3,4,8 --hold micro-batch --quiet";
constexpr int kPoints = 16;

class SweepMerge : public testing::Test {
 protected:
  SweepMerge() { folder_.write("mem.yaml", kMergedScenario); }

  std::string outcome(const std::string& command) const { return outcome_of(command, folder_.path()); }
  std::string text(const std::string& file) const { return test::text_of(folder_.path() / file); }
  /// Makes the shards of one N, each by its own command.
  void make_shards(int count) const {
    for (int i = 1; i <= count; ++i) {
      const std::string made =
          outcome(fmt::format("{} --shard {}/{} -o part-{{shard}}.jsonl", kMergedSweep, i, count));
      EXPECT_THAT(made, HasSubstr(fmt::format("shard {}/{} with ", i, count)));
      EXPECT_THAT(made, Not(HasSubstr("[exit"))) << made;
    }
  }
  std::string merged(const std::string& parts) const { return outcome("penstock sweep --merge " + parts); }

  ScratchFolder folder_;
};

TEST_F(SweepMerge, WritesTheBytesOfOneProcess) {
  const std::string files = " -o {0}.csv -o {0}.json -o {0}.html -o {0}.txt";
  const std::string whole = outcome(kMergedSweep + fmt::format(fmt::runtime(files), "whole"));
  for (const char* const status : {" ok\n", "skipped: ", "failed: "}) EXPECT_THAT(whole, HasSubstr(status));
  for (const int count : {1, 2, 3, kPoints, kPoints + 3}) {
    SCOPED_TRACE(count);
    make_shards(count);
    EXPECT_EQ(merged("part-*.jsonl --quiet" + fmt::format(fmt::runtime(files), "merged")), whole);
    for (const char* const form : {"csv", "json", "html", "txt"})
      EXPECT_EQ(text(fmt::format("merged.{}", form)), text(fmt::format("whole.{}", form))) << form;
    outcome("rm part-*.jsonl");
  }
}

// No point fits in memory, which the tables say in other words.
TEST_F(SweepMerge, WritesTheBytesOfOneProcessWhereNothingFits) {
  folder_.write(
      "mem.yaml",
      std::string(kMergedScenario).replace(std::string_view(kMergedScenario).find("6 GiB"), 5, "9 MiB"));
  const std::string whole = outcome(std::string(kMergedSweep) + " --json");
  EXPECT_THAT(whole, HasSubstr("out_of_memory"));
  make_shards(2);
  EXPECT_EQ(merged("part-*.jsonl --json"), whole);
}

// Its exit code is that of one process, too.
TEST_F(SweepMerge, AnswersASweepWithoutFiguresAsOneProcessDoes) {
  const std::string sweep = "penstock sweep --schedule dualpipe --pp-size 4 --num-microbatches 2,3";
  const std::string whole = outcome(sweep);
  EXPECT_THAT(whole, HasSubstr("[exit 2]"));
  EXPECT_THAT(outcome(sweep + " --shard 1/1 -o part.jsonl"), Not(HasSubstr("[exit")));
  EXPECT_EQ(merged("part.jsonl"), whole);
}

TEST_F(SweepMerge, ALauncherSaysWhichShardAProcessMakes) {
  for (const int rank : {0, 1, 2}) {
    outcome(fmt::format("OMPI_COMM_WORLD_RANK={} OMPI_COMM_WORLD_SIZE=3 {} -o part-{{shard}}.jsonl", rank,
                        kMergedSweep));
  }
  EXPECT_EQ(merged("part-1.jsonl part-2.jsonl part-3.jsonl"), outcome(kMergedSweep));
  EXPECT_EQ(
      outcome(std::string("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 ") + kMergedSweep + " -o table.csv"),
      "! penstock: shard 2/3 (OMPI_COMM_WORLD_SIZE) goes into one file, which --merge reads: expected "
      "-o with a "
      "name such as part-{shard}.jsonl, or unset OMPI_COMM_WORLD_SIZE to make the whole sweep here\n"
      "[exit 2]\n");
}

// A killed shard has lost its last lines, one of them in the middle.
TEST_F(SweepMerge, AShardThatWasEndedGoesOn) {
  make_shards(2);
  const std::string part = text("part-1.jsonl");
  folder_.write("part-1.jsonl", part.substr(0, part.size() * 2 / 3));
  EXPECT_THAT(
      merged("part-1.jsonl part-2.jsonl"),
      HasSubstr("of the 8 points of shard 1/2 are missing: run the command of that shard again, which "
                "goes on from there"));
  make_shards(2);
  EXPECT_EQ(text("part-1.jsonl").size(), part.size());
  EXPECT_EQ(merged("part-1.jsonl part-2.jsonl"), outcome(kMergedSweep));
}

TEST_F(SweepMerge, TheFileOfResumeIsTheOnlyPart) {
  const std::string whole = outcome(kMergedSweep);
  EXPECT_EQ(outcome(std::string(kMergedSweep) + " --resume points"), whole);
  EXPECT_EQ(merged("points"), whole);
}

TEST_F(SweepMerge, RefusesPartsThatAreNotOneSweepInWhole) {
  make_shards(3);
  EXPECT_EQ(merged("part-1.jsonl part-3.jsonl"),
            "! penstock: no part has shard 2/3: name their parts, too\n[exit 2]\n");
  EXPECT_EQ(merged("part-1.jsonl part-2.jsonl part-3.jsonl part-2.jsonl"),
            "! penstock: part-2.jsonl and part-2.jsonl both have shard 2/3: name one of them\n[exit 2]\n");
  outcome(std::string(kMergedSweep) + " --shard 1/2 -o half.jsonl");
  EXPECT_EQ(merged("part-1.jsonl half.jsonl"),
            "! penstock: part-1.jsonl is shard 1/3 and half.jsonl is shard 1/2: name the parts of one "
            "N\n[exit 2]\n");
  outcome(std::string(kMergedSweep) + " --set cluster.memory=7GiB --shard 2/3 -o other.jsonl");
  EXPECT_EQ(
      merged("part-1.jsonl other.jsonl part-3.jsonl"),
      "! penstock: part-1.jsonl and other.jsonl are parts of different sweeps: the scenario, the flags or "
      "penstock differ; name the parts of one sweep\n[exit 2]\n");
  folder_.write("thesis", "my thesis\n");
  EXPECT_EQ(merged("part-1.jsonl thesis"),
            "! penstock: thesis: expected a part of a sweep, as --shard and --resume write it; name another "
            "file\n[exit 2]\n");
  EXPECT_EQ(merged("nothing.jsonl"),
            "! penstock: nothing.jsonl: cannot be read: expected a file\n[exit 2]\n");
}

TEST_F(SweepMerge, RefusesAFileOfAnotherShardAndLeavesIt) {
  make_shards(2);
  const std::string before = text("part-1.jsonl");
  EXPECT_THAT(outcome(std::string(kMergedSweep) + " --shard 2/2 -o part-1.jsonl"),
              HasSubstr("part-1.jsonl: the file is of shard 1/2, this one is 2/2; name another file"));
  EXPECT_EQ(text("part-1.jsonl"), before);
}

TEST_F(SweepMerge, RefusesFlagsThatOnlyAWholeSweepHas) {
  const std::string shard = std::string(kMergedSweep) + " --shard 1/2";
  EXPECT_THAT(outcome(shard), HasSubstr("shard 1/2 (--shard) goes into one file, which --merge reads"));
  EXPECT_THAT(outcome(shard + " -o a.jsonl -o b.jsonl"), HasSubstr("goes into one file"));
  EXPECT_THAT(outcome(shard + " -o a.jsonl --json"), HasSubstr("--json prints a whole sweep"));
  EXPECT_THAT(outcome(shard + " -o a.jsonl --resume points"), HasSubstr("leave out --resume"));
  EXPECT_THAT(merged("a.jsonl --pp-size 4"),
              HasSubstr("--merge takes the scenario and the grid from the parts"));
  make_shards(1);
  EXPECT_THAT(merged("part-1.jsonl -o part-1.jsonl"), HasSubstr("[exit 2]"));
}

}  // namespace
}  // namespace penstock
