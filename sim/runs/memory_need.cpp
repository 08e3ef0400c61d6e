// Bytes of a compute action, from below: what runs of some million actions have taken of resident memory,
// rounded down.
//
//   program, channels, walk   280      event engine's states   600      spans of a timeline   400
//
// A run that is begun although it does not fit ends in the middle, after minutes; one that is refused says
// how far off it is.

#include "sim/runs/memory_need.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

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

constexpr double kStoredBytes = 280;
constexpr double kEventBytes = 600;
constexpr double kTimelineBytes = 400;
constexpr double kAnyMachinesBytes = 1 << 26;

/// Of this process, from the first number of /proc/self/statm.
std::optional<Bytes> addresses_in_use() {
  std::ifstream statm("/proc/self/statm");
  Bytes pages = 0;
  constexpr Bytes kPage = 4096;
  return statm >> pages ? std::optional(pages * kPage) : std::nullopt;
}

std::optional<Bytes> addresses_left() {
  rlimit bound{};
  const auto used = addresses_in_use();
  if (!used || getrlimit(RLIMIT_AS, &bound) != 0 || bound.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return std::max<Bytes>(0, static_cast<Bytes>(bound.rlim_cur) - *used);
}

double stored_bytes(double compute_actions, const SimulateOptions& options) {
  double bytes = kStoredBytes;
  if (options.engine == Engine::event) bytes += kEventBytes;
  if (options.timeline == TimelineKept::all) bytes += kTimelineBytes;
  return bytes * compute_actions;
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
  const Bytes share = *available / 4 * 3;
  return left ? std::min(share, *left) : share;
}

std::optional<std::string> memory_refusal(double compute_actions, const SimulateOptions& options,
                                          Bytes within_reach) {
  const double needed = stored_bytes(compute_actions, options);
  if (needed <= static_cast<double>(within_reach)) return std::nullopt;
  return fmt::format(
      "{:.3g} compute actions take at least {} of memory, and {} are within reach: take fewer stages, "
      "microbatches or iterations{}",
      compute_actions, format_bytes(static_cast<Bytes>(needed)), format_bytes(within_reach),
      options.timeline == TimelineKept::all ? ", or no timeline" : "");
}

std::optional<std::string> memory_refusal(const Scenario& scenario, const SimulateOptions& options) {
  const double actions = compute_actions(scenario);
  if (stored_bytes(actions, options) < kAnyMachinesBytes || actions > kMostGenerated) return std::nullopt;
  const auto within_reach = memory_within_reach();
  return within_reach ? memory_refusal(actions, options, *within_reach) : std::nullopt;
}

}  // namespace penstock
