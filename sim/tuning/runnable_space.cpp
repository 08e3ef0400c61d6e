// Removes configurations that cannot run. This depends only on the program, so one configuration of each
// program is checked. The outline shows whether the schedule refuses an option. Only the whole program shows
// a hang, which is impossible with the default channels:
//
//     refused options?   the outline of each program        hangs?   all programs, on all cores
//
// Tests: tests/sim/runnable_space_test.cpp.

#include "sim/tuning/runnable_space.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/channel.hpp"
#include "sim/engines/parallel_loop.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/left_out.hpp"
#include "sim/tuning/program_library.hpp"
#include "sim/tuning/stoppable_work.hpp"

namespace penstock {
namespace {

/// The reason why a program cannot run; empty if it can.
struct RunFault {
  std::string reason{};
  bool hangs = false;
};

using RunFaults = std::map<ProgramLibrary::Key, RunFault>;

/// Returns for each program why it hangs, or an empty text if it does not.
std::vector<std::string> hang_reasons(const std::vector<Configuration>& asked, ProgramLibrary& programs,
                                      const std::function<bool()>& stopped) {
  std::vector<std::string> hangs(asked.size());
  parallel_loop(asked.size(), [&](std::size_t i) {
    if (stopped && stopped()) return;
    if (const auto program = programs.program(asked[i]); !program) hangs[i] = program.error();
  });
  return hangs;
}

/// Returns the fault of every program of the space, or nothing if the check was stopped.
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
  // The work owns all that it uses, because it is abandoned when the search is stopped.
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

}  // namespace penstock
