// Finds the shard of a process from a flag or from the variables of a launcher. Launchers number processes
// from 0, and users number shards from 1. If each task of a Slurm job array has several processes, the number
// of the task and the number of the process both count:
//
//   sbatch --array=0-1, srun -n 3      task 0: shards 1/6 2/6 3/6      task 1: shards 4/6 5/6 6/6
//
// Tested by SweepShard (tests/cli/sweep_merge_test.cpp), which sets the variables of each launcher.

#include "cli/sweep_progress_file.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "backend/process/process_execution.hpp"
#include "cli/outcome.hpp"
#include "report/result/sweep_table.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/read/document.hpp"
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

/// Returns the number in an environment variable, or 0 if the variable is not set.
tl::expected<std::int32_t, UserError> number_in(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (text == nullptr) return 0;
  if (const auto number = number_of_text<std::int32_t>(text); number && *number >= 0) return *number;
  return bad_input(fmt::format("{}: expected a number from 0 on, got \"{}\"", name, shown_name(text)));
}

/// Returns the number of this task in its Slurm job array, and the number of tasks. Without an array it is
/// task 0 of 1.
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

/// Returns the name of an environment variable for a Slurm step. For SLURM_NTASKS, the size of the job, it
/// returns SLURM_STEP_NUM_TASKS, the size of the step. All other names are returned unchanged.
const char* of_a_step(const char* name) {
  return std::string_view(name) == "SLURM_NTASKS" ? "SLURM_STEP_NUM_TASKS" : name;
}

/// Returns an environment in which launched_rank() finds a rank only in a step of Slurm. The script of a
/// job also has the variables SLURM_PROCID and SLURM_NTASKS, although it is a single process. Only a step
/// that srun has started has SLURM_STEP_NUM_TASKS.
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

// Merges the parts of one sweep. Their heads differ only in the number of the shard. Shard I of N has the
// points I-1, I-1+N, I-1+2N, ...:
//
//   shard 1/3: points 0 3 6      shard 2/3: points 1 4 7      shard 3/3: points 2 5      rows 0 1 2 ... 7
//
// Tested by SweepMerge (tests/cli/sweep_merge_test.cpp).

namespace {

struct PartFile {
  std::string name;  ///< The name as messages show it.
  SweepPart part;
};

tl::expected<PartFile, UserError> part_of(const std::string& file) {
  const std::string name = shown_name(file);
  std::error_code ignored;
  std::ifstream opened;
  // Only regular files are opened, because a pipe or a device may have no end.
  if (file != kStandardInput && std::filesystem::is_regular_file(file, ignored)) opened.open(file);
  const bool is_standard_input = file == kStandardInput;
  if (!opened.is_open() && !is_standard_input)
    return bad_input(fmt::format("{}: cannot be read: expected a file", name));
  auto part = read_sweep_part(is_standard_input ? std::cin : static_cast<std::istream&>(opened), name);
  if (!part) return bad_input(part.error());
  return PartFile{.name = name, .part = *std::move(part)};
}

/// Returns an error if the two files are not shards of the same sweep with the same number of shards.
tl::expected<void, UserError> check_same_sweep(const PartFile& first, const PartFile& other) {
  const SweepHead& one = first.part.head;
  const SweepHead& two = other.part.head;
  if (one.points != two.points || one.digest != two.digest) {
    return bad_input(
        fmt::format("{} and {} are parts of different sweeps: the scenario, the flags or penstock "
                    "differ; name the parts of one sweep",
                    first.name, other.name));
  }
  if (one.shard.count == two.shard.count) return {};
  return bad_input(fmt::format("{} is shard {} and {} is shard {}: name the parts of one N", first.name,
                               to_text(one.shard), other.name, to_text(two.shard)));
}

/// Returns an error if the file has a point that belongs to another shard, or if it lacks a point of its own
/// shard.
tl::expected<void, UserError> check_complete(const PartFile& file) {
  const SweepHead& head = file.part.head;
  const std::size_t expected = head.shard.size(head.points);
  const std::size_t found = file.part.points.size();
  if (found == expected) return {};
  return bad_input(
      fmt::format("{}: {} of the {} points of shard {} are missing: run the command of that shard "
                  "again, which goes on from there",
                  file.name, expected - found, expected, to_text(head.shard)));
}

/// Returns an error that lists the shards for which there is no file. Requires that all files have
/// different shards.
tl::expected<void, UserError> check_all_there(const std::map<std::int32_t, std::string>& names,
                                              std::int32_t count) {
  constexpr std::size_t kMostNamed = 8;
  std::vector<std::string> missing;
  for (std::int32_t i = 0; i < count && missing.size() < kMostNamed; ++i) {
    if (!names.contains(i)) missing.push_back(to_text(SweepShard{.index = i, .count = count}));
  }
  if (missing.empty()) return {};
  const std::size_t all = static_cast<std::size_t>(count) - names.size();
  const std::string more = all > missing.size() ? fmt::format(" and {} more", all - missing.size()) : "";
  return bad_input(
      fmt::format("no part has shard {}{}: name their parts, too", fmt::join(missing, ", "), more));
}

}  // namespace

tl::expected<Sweep, UserError> merged_sweep(const std::vector<std::string>& files) {
  std::optional<PartFile> first;
  std::map<std::int32_t, std::string> names;  // the file of each shard
  std::map<std::size_t, SweepPoint> points;
  std::map<std::size_t, MeanBill> bills;
  for (const std::string& file : files) {
    auto read = part_of(file);
    if (!read) return tl::unexpected(read.error());
    if (!first)
      first = PartFile{.name = read->name, .part = {.head = read->part.head, .points = {}, .bills = {}}};
    if (auto same = check_same_sweep(*first, *read); !same) return tl::unexpected(same.error());
    const auto [named, is_new] = names.emplace(read->part.head.shard.index, read->name);
    if (!is_new) {
      return bad_input(fmt::format("{} and {} both have shard {}: name one of them", named->second,
                                   read->name, to_text(read->part.head.shard)));
    }
    if (auto complete = check_complete(*read); !complete) return tl::unexpected(complete.error());
    points.merge(read->part.points);
    bills.merge(read->part.bills);
  }
  SweepHead head = std::move(first->part.head);
  if (auto all = check_all_there(names, head.shard.count); !all) return tl::unexpected(all.error());
  head.shard = {};
  std::vector<std::optional<SweepPoint>> rows(head.points);
  for (auto& [number, point] : points) rows[number] = std::move(point);
  Sweep swept = sweep_of_points(head, std::move(rows));
  swept.bills = std::move(bills);  // all points are there, so their numbers are those of the rows
  return swept;
}

}  // namespace penstock
