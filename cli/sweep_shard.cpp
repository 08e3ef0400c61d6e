// A launcher numbers its processes from 0, users count shards from 1. A task of a job array may have several
// processes, and then both numbers count:
//
//   sbatch --array=0-1, srun -n 3      task 0: shards 1/6 2/6 3/6      task 1: shards 4/6 5/6 6/6
//
// SweepShard (tests/cli/sweep_shard_test.cpp) holds the variables of each launcher.

#include "cli/sweep_shard.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/process/launch_environment.hpp"
#include "cli/outcome.hpp"
#include "report/result/sweep_progress.hpp"
#include "text/escaping.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

constexpr std::int32_t kMostShards = 1 << 20;

tl::expected<SweepShard, UserError> shard_of_flag(const std::string& flag) {
  const std::size_t slash = flag.find('/');
  const auto number = number_of_text<std::int32_t>(std::string_view(flag).substr(0, slash));
  const auto count =
      slash == std::string::npos ? std::nullopt : number_of_text<std::int32_t>(flag.substr(slash + 1));
  if (number && count && *number >= 1 && *number <= *count && *count <= kMostShards)
    return SweepShard{.index = *number - 1, .count = *count};
  return bad_input(
      fmt::format("--shard: expected I/N with I from 1 to N and N at most {}, such as 2/4, got \"{}\"",
                  kMostShards, shown_name(flag)));
}

/// Returns the number in a variable; 0 where it is not set.
tl::expected<std::int32_t, UserError> number_in(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (text == nullptr) return 0;
  if (const auto number = number_of_text<std::int32_t>(text); number && *number >= 0) return *number;
  return bad_input(fmt::format("{}: expected a number from 0 on, got \"{}\"", name, shown_name(text)));
}

/// Returns the task of a job array, which is alone where there is no array.
tl::expected<SweepShard, UserError> task_of_array(const Environment& environment) {
  if (environment("SLURM_ARRAY_TASK_ID") == nullptr) return SweepShard{};
  const auto id = number_in(environment, "SLURM_ARRAY_TASK_ID");
  if (!id) return tl::unexpected(id.error());
  const auto count = number_in(environment, "SLURM_ARRAY_TASK_COUNT");
  if (!count) return tl::unexpected(count.error());
  const auto least = number_in(environment, "SLURM_ARRAY_TASK_MIN");
  if (!least) return tl::unexpected(least.error());
  const auto step = number_in(environment, "SLURM_ARRAY_TASK_STEP");
  if (!step) return tl::unexpected(step.error());
  const std::int32_t apart = std::max(1, *step);
  const SweepShard task{.index = (*id - *least) / apart, .count = *count};
  const bool is_even = *id >= *least && (*id - *least) % apart == 0 && task.index < task.count;
  if (is_even && task.count <= kMostShards) return task;
  return bad_input(fmt::format(
      "SLURM_ARRAY_TASK_ID {} is none of {} tasks from {} in steps of {} (SLURM_ARRAY_TASK_COUNT, "
      "_MIN and _STEP): number the array evenly, such as --array=0-7, or state --shard I/N",
      *id, *count, *least, apart));
}

/// Returns the variable of a step of Slurm in the place of the one of its job.
const char* of_a_step(const char* name) {
  return std::string_view(name) == "SLURM_NTASKS" ? "SLURM_STEP_NUM_TASKS" : name;
}

/// Returns the variables as launched_rank() is to see them. SLURM_PROCID and SLURM_NTASKS also stand in the
/// script of a job, which is alone; only a step, which srun started, has SLURM_STEP_NUM_TASKS.
Environment of_steps(const Environment& environment) {
  return [&environment](const char* name) -> const char* {
    const bool is_step = environment("SLURM_STEP_NUM_TASKS") != nullptr;
    return std::string_view(name) == "SLURM_PROCID" && !is_step ? nullptr : environment(of_a_step(name));
  };
}

}  // namespace

tl::expected<std::optional<StatedShard>, UserError> shard_of_process(const std::string& flag,
                                                                     const Environment& environment) {
  if (!flag.empty()) {
    return shard_of_flag(flag).map([](const SweepShard& shard) {
      return std::optional(StatedShard{.shard = shard, .stated_by = "--shard"});
    });
  }
  const auto task = task_of_array(environment);
  if (!task) return tl::unexpected(task.error());
  const auto launched = launched_rank(of_steps(environment));
  if (!launched) return bad_input(launched.error());
  const LaunchedRank rank = launched->value_or(LaunchedRank{});
  const std::int64_t count = std::int64_t{task->count} * rank.size;
  if (count == 1) return std::nullopt;
  if (count > kMostShards) {
    return bad_input(fmt::format("a sweep has at most {} shards, and the launcher started {} processes",
                                 kMostShards, count));
  }
  return StatedShard{
      .shard = {.index = task->index * rank.size + rank.rank, .count = static_cast<std::int32_t>(count)},
      .stated_by = rank.size > 1 ? of_a_step(rank.size_variable) : "SLURM_ARRAY_TASK_COUNT"};
}

}  // namespace penstock
