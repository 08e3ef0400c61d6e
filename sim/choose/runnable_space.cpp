// Removes configurations that cannot run. A configuration can run if its program can run, so one
// configuration is checked for each program. An outline of the program shows if the schedule refuses an
// option. Only the whole program shows if it hangs, and this is checked only for channels other than the
// default ones:
//
//     refused options?   the outline of each program        hangs?   all programs, on all cores
//
// Tests: tests/sim/tuning_space_test.cpp.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/print/units.hpp"
#include "scenarios/host/process_limits.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/configuration_figures.hpp"
#include "sim/choose/tune.hpp"
#include "sim/choose/tuning_space.hpp"
#include "sim/sweep/parallel_loop.hpp"

namespace penstock {

namespace {

/// The reason why a program cannot run. It is empty if the program can run.
struct RunFault {
  std::string reason{};
  bool hangs = false;
};

using RunFaults = std::map<ProgramLibrary::Key, RunFault>;

/// Returns for each program the reason why it hangs, or an empty text if it does not hang.
std::vector<std::string> hang_reasons(const std::vector<Configuration>& asked, ProgramLibrary& programs,
                                      const std::function<bool()>& stopped) {
  std::vector<std::string> hangs(asked.size());
  parallel_loop(asked.size(), [&](std::size_t i) {
    if (stopped && stopped()) return;
    if (const auto program = programs.program(asked[i]); !program) hangs[i] = program.error();
  });
  return hangs;
}

/// Returns the reason why each program of the space cannot run. Returns nothing if the check was stopped.
std::optional<RunFaults> faults_of(const std::vector<Configuration>& space, const ChannelOptions& channels,
                                   const std::shared_ptr<ProgramLibrary>& programs,
                                   const std::function<bool()>& stopped) {
  RunFaults faults;
  std::vector<Configuration> outlined;  // one configuration for each program
  for (const Configuration& configuration : space) {
    if (stopped && stopped()) return std::nullopt;
    const auto [fault, fresh] = faults.try_emplace(ProgramLibrary::key_of(configuration));
    if (!fresh) continue;
    if (const auto outline = programs->outline(configuration); !outline) {
      fault->second.reason = outline.error();
    } else {
      outlined.push_back(configuration);
    }
  }
  if (channels == ChannelOptions{}) return faults;
  // If the search is stopped, this work may continue, so it owns all its data.
  const auto hangs = done_unless(
      stopped, [outlined, programs, stopped] { return hang_reasons(outlined, *programs, stopped); });
  if (!hangs || (stopped && stopped())) return std::nullopt;
  for (std::size_t i = 0; i < outlined.size(); ++i) {
    if ((*hangs)[i].empty()) continue;
    faults[ProgramLibrary::key_of(outlined[i])] = {.reason = (*hangs)[i], .hangs = true};
  }
  return faults;
}

}  // namespace

std::optional<RunnableSpace> runnable_space(const std::vector<Configuration>& space,
                                            const ChannelOptions& channels,
                                            const std::shared_ptr<ProgramLibrary>& programs,
                                            const std::function<bool()>& stopped) {
  const auto faults = faults_of(space, channels, programs, stopped);
  if (!faults) return std::nullopt;
  RunnableSpace runnable;
  for (const Configuration& configuration : space) {
    const RunFault& fault = faults->at(ProgramLibrary::key_of(configuration));
    if (fault.reason.empty()) {
      runnable.configurations.push_back(configuration);
    } else {
      add_left_out(runnable.left_out, configuration.schedule, fault.reason, fault.hangs);
    }
  }
  return runnable;
}

// Refuses a space if its largest program does not fit into memory. Otherwise the search would fail after
// minutes. A program with its tape needs at least about 70 bytes for each F and B. This is the resident
// memory of 1F1B with a million actions; other schedules need more.

namespace {

constexpr double kTunedBytes = 70;
constexpr double kAlwaysThere = 1 << 26;  // 64 MiB; a program that needs less is never refused
// The largest number of actions, because positions in lowered programs have 32 bits.
constexpr double kMostNumberedActions = 1LL << 29;

/// Returns the number of forward and backward passes of the configuration's program. It is a double, because
/// the product may exceed 64 bits.
double tuned_actions(const Configuration& of) {
  return 2.0 * of.stages * of.virtual_stages * of.microbatches;
}

constexpr std::string_view kRemedy =
    "take a smaller global batch, or allow only fewer stages (--pp-size), larger microbatches "
    "(--micro-batch-size) or more copies (--data-parallel)";

/// Returns text such as "tune: the 3.36e+07 compute actions of 1f1b on 8 ranks x 1 virtual stages with 64
/// microbatches".
std::string actions_text(const Configuration& of) {
  return fmt::format(
      "tune: the {:.3g} compute actions of {} on {} ranks x {} virtual stages with {} microbatches",
      tuned_actions(of), of.schedule, of.stages, of.virtual_stages, of.microbatches);
}

}  // namespace

std::optional<std::string> space_refusal(std::span<const Configuration> space, Bytes within_reach) {
  const auto largest = std::ranges::max_element(space, {}, tuned_actions);
  if (largest == space.end()) return std::nullopt;
  const double actions = tuned_actions(*largest);
  if (actions > kMostNumberedActions)
    return fmt::format("{} are more than an engine numbers, 2^29: {}", actions_text(*largest), kRemedy);
  const double needed = actions * kTunedBytes;
  if (needed < kAlwaysThere) return std::nullopt;
  return lack_of_memory(actions_text(*largest), needed, within_reach, kRemedy);
}

std::optional<std::string> space_refusal(std::span<const Configuration> space) {
  return space_refusal(space, memory_within_reach().value_or(std::numeric_limits<Bytes>::max()));
}

}  // namespace penstock
