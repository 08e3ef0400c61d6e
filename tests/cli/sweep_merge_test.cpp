// Tests sweeps whose shards are made by several processes. --merge must make the same bytes from their files
// as one process writes. The first tests check which shard a process makes.

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/sweep_progress_file.hpp"
#include "tests/cli/transcript.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using Variables = std::map<std::string, std::string>;

/// Returns a text such as "shard 2/4 by --shard", "whole", or the error.
std::string words_of(const std::string& flag, const Variables& variables = {}) {
  const auto stated = shard_of_process(flag, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  if (!stated) return stated.error().message;
  if (!*stated) return "whole";
  return "shard " + to_text((*stated)->shard) + " by " + (*stated)->stated_by;
}

TEST(SweepShard, HasEveryNthPoint) {
  const SweepShard second{.index = 1, .count = 3};
  EXPECT_FALSE(second.has(0));
  EXPECT_TRUE(second.has(1));
  EXPECT_TRUE(second.has(4));
  EXPECT_EQ(second.size(0), 0U);
  EXPECT_EQ(second.size(1), 0U);
  EXPECT_EQ(second.size(2), 1U);
  EXPECT_EQ(second.size(7), 2U);
  EXPECT_EQ(second.size(8), 3U);
}

TEST(SweepShard, TheFlagCountsFromOne) {
  EXPECT_EQ(words_of("1/1"), "shard 1/1 by --shard");
  EXPECT_EQ(words_of("2/4", {{"RANK", "0"}, {"WORLD_SIZE", "8"}}), "shard 2/4 by --shard");
  for (const char* const text : {"0/4", "5/4", "2", "2/", "/4", "2/4/8", "a/b", "-1/4", "1/2000000"}) {
    EXPECT_EQ(words_of(text),
              "--shard: expected I/N with I from 1 to N and N at most 1048576, such as 2/4, got \"" +
                  std::string(text) + "\"");
  }
}

TEST(SweepShard, LaunchersCountFromZero) {
  EXPECT_EQ(words_of(""), "whole");
  EXPECT_EQ(words_of("", {{"RANK", "0"}, {"WORLD_SIZE", "8"}}), "shard 1/8 by WORLD_SIZE");
  EXPECT_EQ(words_of("", {{"OMPI_COMM_WORLD_RANK", "7"}, {"OMPI_COMM_WORLD_SIZE", "8"}}),
            "shard 8/8 by OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(words_of("", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "shard 2/2 by PMI_SIZE");
  EXPECT_EQ(words_of("", {{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "whole");
  EXPECT_EQ(words_of("", {{"RANK", "8"}, {"WORLD_SIZE", "8"}}),
            "RANK: expected a number from 0 to 7, got \"8\"");
}

// A job script also has SLURM_PROCID and SLURM_NTASKS, but it is a single process.
TEST(SweepShard, OfSlurmOnlyAStepHasShards) {
  const Variables script = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}};
  EXPECT_EQ(words_of("", script), "whole");
  Variables step = script;
  step["SLURM_STEP_NUM_TASKS"] = "4";
  step["SLURM_PROCID"] = "2";
  EXPECT_EQ(words_of("", step), "shard 3/4 by SLURM_STEP_NUM_TASKS");
}

TEST(SweepShard, ATaskOfAJobArrayIsAShard) {
  const auto task = [](const std::string& id, const std::string& step) {
    return Variables{{"SLURM_ARRAY_TASK_ID", id},   {"SLURM_ARRAY_TASK_COUNT", "3"},
                     {"SLURM_ARRAY_TASK_MIN", "1"}, {"SLURM_ARRAY_TASK_STEP", step},
                     {"SLURM_PROCID", "0"},         {"SLURM_NTASKS", "1"}};
  };
  EXPECT_EQ(words_of("", task("1", "1")), "shard 1/3 by SLURM_ARRAY_TASK_COUNT");
  EXPECT_EQ(words_of("", task("3", "1")), "shard 3/3 by SLURM_ARRAY_TASK_COUNT");
  EXPECT_EQ(words_of("", task("5", "2")), "shard 3/3 by SLURM_ARRAY_TASK_COUNT");
  // The task numbers of --array=1,5,7 have no constant step.
  EXPECT_EQ(words_of("", task("7", "1")),
            "SLURM_ARRAY_TASK_ID 7 is none of 3 tasks from 1 in steps of 1 (SLURM_ARRAY_TASK_COUNT, _MIN and "
            "_STEP): number the array evenly, such as --array=0-7, or state --shard I/N");
  Variables with_steps = task("2", "1");
  with_steps["SLURM_STEP_NUM_TASKS"] = "4";
  with_steps["SLURM_PROCID"] = "3";
  EXPECT_EQ(words_of("", with_steps), "shard 8/12 by SLURM_STEP_NUM_TASKS");
}

// Each shard is made by its own process. --merge must make the same bytes as one process.

using testing::HasSubstr;
using testing::Not;

// In this sweep one point runs, one hangs, and the schedules refuse the others.
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
  /// Makes all `count` shards, each with its own command.
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
  EXPECT_THAT(text("whole.html"), HasSubstr("Where the time goes, of the mean rank"));
  for (const int count : {1, 2, 3, kPoints, kPoints + 3}) {
    SCOPED_TRACE(count);
    make_shards(count);
    EXPECT_EQ(merged("part-*.jsonl --quiet" + fmt::format(fmt::runtime(files), "merged")), whole);
    for (const char* const form : {"csv", "json", "html", "txt"})
      EXPECT_EQ(text(fmt::format("merged.{}", form)), text(fmt::format("whole.{}", form))) << form;
    outcome("rm part-*.jsonl");
  }
}

// No point fits in memory. The tables have a special text for this case.
TEST_F(SweepMerge, WritesTheBytesOfOneProcessWhereNothingFits) {
  folder_.write(
      "mem.yaml",
      std::string(kMergedScenario).replace(std::string_view(kMergedScenario).find("6 GiB"), 5, "9 MiB"));
  const std::string whole = outcome(std::string(kMergedSweep) + " --json");
  EXPECT_THAT(whole, HasSubstr("out_of_memory"));
  make_shards(2);
  EXPECT_EQ(merged("part-*.jsonl --json"), whole);
}

// The exit code must also be the same as that of one process.
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

// A killed process has not written its last lines. The last line in the file is incomplete.
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
