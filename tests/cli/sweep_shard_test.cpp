// The shard that a process makes: stated by --shard, or read from the variables of its launcher.

#include "cli/sweep_shard.hpp"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using Variables = std::map<std::string, std::string>;

/// "shard 2/4 by --shard", "whole", or the error.
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

// The script of a job has SLURM_PROCID and SLURM_NTASKS, too, and is alone.
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
  // --array=1,5,7 numbers its tasks unevenly.
  EXPECT_EQ(words_of("", task("7", "1")),
            "SLURM_ARRAY_TASK_ID 7 is none of 3 tasks from 1 in steps of 1 (SLURM_ARRAY_TASK_COUNT, _MIN and "
            "_STEP): number the array evenly, such as --array=0-7, or state --shard I/N");
  Variables with_steps = task("2", "1");
  with_steps["SLURM_STEP_NUM_TASKS"] = "4";
  with_steps["SLURM_PROCID"] = "3";
  EXPECT_EQ(words_of("", with_steps), "shard 8/12 by SLURM_STEP_NUM_TASKS");
}

}  // namespace
}  // namespace penstock
