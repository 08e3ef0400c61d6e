// Bytes of a compute action and of a transfer, from below: what runs of some million actions have taken of
// resident memory, rounded down.
//
//                              compute action   transfer
//   its lists alone                        50         50
//   program, channels, walk               160        120
//   event engine's states                 120        590
//   spans of a timeline                    60
//   all of a run by turns, with spans      70         95
//   all of a check                         70         70
//
// Of K ranks' compute actions K-1 in K have a neighbour to tell, weights' gradients (one in three) nobody. A
// run that is begun although it does not fit ends in the middle, after minutes; one that is refused says how
// far off it is.

#include "sim/runs/memory_need.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "report/print/units.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/runs/streamed_run.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct ActionBytes {
  double compute = 0;
  double transfer = 0;
};
constexpr ActionBytes kListedBytes = {.compute = 50, .transfer = 50};
constexpr ActionBytes kStoredBytes = {.compute = 160, .transfer = 120};
constexpr ActionBytes kEventBytes = {.compute = 120, .transfer = 590};
constexpr ActionBytes kTimelineBytes = {.compute = 60, .transfer = 0};
constexpr ActionBytes kTurnBytes = {.compute = 70, .transfer = 95};
constexpr ActionBytes kCheckedBytes = {.compute = 70, .transfer = 70};
// 64 MiB: less is not worth a look at the machine.
constexpr double kAnyMachinesBytes = 1 << 26;

/// Of this process, from the first number of /proc/self/statm.
std::optional<Bytes> addresses_in_use() {
  std::ifstream statm("/proc/self/statm");
  Bytes pages = 0;
  // 4 KiB on x86-64, up to 64 KiB on the processors beside Grace Hopper's GPUs.
  const Bytes page = sysconf(_SC_PAGESIZE);
  return statm >> pages ? std::optional(pages * page) : std::nullopt;
}

std::optional<Bytes> addresses_left() {
  rlimit bound{};
  const auto used = addresses_in_use();
  if (!used || getrlimit(RLIMIT_AS, &bound) != 0 || bound.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return std::max<Bytes>(0, static_cast<Bytes>(bound.rlim_cur) - *used);
}

/// The number that a file of one line begins with; nothing of "max".
std::optional<Bytes> number_in(const fs::path& file) {
  std::ifstream stream(file);
  Bytes number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

/// Of files, and given back when somebody needs the memory: the kernel counts them as taken.
Bytes cached_bytes(const fs::path& statistics, std::string_view prefix) {
  std::ifstream stream(statistics);
  Bytes cached = 0;
  Bytes bytes = 0;
  for (std::string key; stream >> key >> bytes;) {
    if (!key.starts_with(prefix)) continue;
    const std::string_view kind = std::string_view(key).substr(prefix.size());
    if (kind == "inactive_file" || kind == "active_file") cached += bytes;
  }
  return cached;
}

/// Names of one version of control groups.
struct GroupFiles {
  const char* bound;
  const char* taken;
  std::string_view prefix;  ///< in memory.stat, of what counts the groups below, too
};
constexpr GroupFiles kVersion1 = {
    .bound = "memory.limit_in_bytes", .taken = "memory.usage_in_bytes", .prefix = "total_"};
constexpr GroupFiles kVersion2 = {.bound = "memory.max", .taken = "memory.current", .prefix = ""};

/// What this group and those above it leave, up to the mount of all.
void narrow_by_groups(std::optional<Bytes>& least, const fs::path& mount, std::string_view group,
                      const GroupFiles& files) {
  for (fs::path path = fs::path(group).relative_path();; path = path.parent_path()) {
    const fs::path folder = mount / path;
    const auto bound = number_in(folder / files.bound);
    const auto taken = number_in(folder / files.taken);
    if (bound && taken) {
      const Bytes held = std::max<Bytes>(0, *taken - cached_bytes(folder / "memory.stat", files.prefix));
      const Bytes left = std::max<Bytes>(0, *bound - held);
      least = std::min(least.value_or(left), left);
    }
    if (path.empty()) return;
  }
}

double operator*(const ActionCounts& counts, ActionBytes each) {
  return counts.compute * each.compute + counts.transfers * each.transfer;
}

double stored_bytes(const ActionCounts& counts, const SimulateOptions& options) {
  double bytes = counts * kStoredBytes;
  if (options.engine == Engine::event) bytes += counts * kEventBytes;
  if (options.timeline == TimelineKept::all) bytes += counts * kTimelineBytes;
  return bytes;
}

std::string refusal_text(const ActionCounts& counts, double needed, Bytes within_reach,
                         std::string_view what_else) {
  return fmt::format(
      "{:.3g} compute actions take at least {} of memory, and {} are within reach: take fewer stages, "
      "microbatches or iterations{}",
      counts.compute, format_bytes(static_cast<Bytes>(needed)), format_bytes(within_reach), what_else);
}

}  // namespace

std::optional<Bytes> available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  Bytes kibibytes = 0;
  for (std::string rest; meminfo >> key >> kibibytes && std::getline(meminfo, rest);) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return std::nullopt;
}

std::optional<Bytes> memory_of_control_groups(const fs::path& groups, const fs::path& mount) {
  std::optional<Bytes> least;
  std::ifstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    // "ID:CONTROLLERS:GROUP"; of version 2 there is one group for all controllers, which are not named.
    std::istringstream fields(line);
    std::string id;
    std::string controllers;
    std::string group;
    if (!std::getline(fields, id, ':') || !std::getline(fields, controllers, ':') ||
        !std::getline(fields, group)) {
      continue;
    }
    if (controllers.empty()) narrow_by_groups(least, mount, group, kVersion2);
    if (controllers == "memory") narrow_by_groups(least, mount / "memory", group, kVersion1);
  }
  return least;
}

std::optional<Bytes> memory_within_reach() {
  auto available = available_memory();
  if (const auto of_groups = memory_of_control_groups("/proc/self/cgroup", "/sys/fs/cgroup"))
    available = std::min(available.value_or(*of_groups), *of_groups);
  const auto left = addresses_left();
  if (!available) return left;
  // The rest is for what runs beside, and for what the estimate leaves out.
  const Bytes share = *available / 4 * 3;
  return left ? std::min(share, *left) : share;
}

ActionCounts action_counts(const Scenario& scenario) {
  const double compute = compute_actions(scenario);
  const double ranks = scenario.shape.stages;
  // Each of its ranks has all stages, and gradients go in a bucket a stage.
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  if (schedule != nullptr && schedule->name == "data-parallel") return {.compute = compute, .transfers = 0};
  return {.compute = compute, .transfers = compute * (ranks - 1) / ranks * 2 / 3};
}

std::optional<std::string> memory_refusal(const ActionCounts& counts, const SimulateOptions& options,
                                          Bytes within_reach) {
  const double needed = stored_bytes(counts, options);
  if (needed <= static_cast<double>(within_reach)) return std::nullopt;
  return refusal_text(counts, needed, within_reach,
                      options.timeline == TimelineKept::all ? ", or no timeline" : "");
}

std::optional<std::string> memory_refusal(const Scenario& scenario, const SimulateOptions& options) {
  const ActionCounts counts = action_counts(scenario);
  if (stored_bytes(counts, options) < kAnyMachinesBytes || counts.compute > kMostGenerated)
    return std::nullopt;
  const auto within_reach = memory_within_reach();
  return within_reach ? memory_refusal(counts, options, *within_reach) : std::nullopt;
}

namespace {

/// Of a scenario whose actions take so much each.
std::optional<std::string> refusal_of(const Scenario& scenario, ActionBytes each) {
  const ActionCounts counts = action_counts(scenario);
  const double needed = counts * each;
  if (needed < kAnyMachinesBytes || counts.compute > kMostGenerated) return std::nullopt;
  const auto within_reach = memory_within_reach();
  if (!within_reach || needed <= static_cast<double>(*within_reach)) return std::nullopt;
  return refusal_text(counts, needed, *within_reach, "");
}

}  // namespace

std::optional<std::string> turns_refusal(const Scenario& scenario) {
  return refusal_of(scenario, kTurnBytes);
}

std::optional<std::string> lists_refusal(const Scenario& scenario) {
  return refusal_of(scenario, kListedBytes);
}

std::optional<std::string> check_refusal(const Scenario& scenario) {
  return refusal_of(scenario, kCheckedBytes);
}

}  // namespace penstock
