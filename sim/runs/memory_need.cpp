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
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "report/print/units.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/runs/streamed_run.hpp"

namespace penstock {
namespace {

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

std::optional<Bytes> memory_within_reach() {
  const auto available = available_memory();
  const auto left = addresses_left();
  if (!available) return left;
  // The rest is for what runs beside, and for what the estimate leaves out.
  const Bytes share = *available / 4 * 3;
  return left ? std::min(share, *left) : share;
}

ActionCounts action_counts(const Scenario& scenario) {
  const double compute = compute_actions(scenario);
  const double ranks = scenario.shape.stages;
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
