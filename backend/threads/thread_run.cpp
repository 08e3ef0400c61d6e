// The `cpu-thread` backend. It passes measure() (measured_run.hpp) a function that runs the program once.
// Each repeat has its own clock, modules and transport. The transport supports blocking channels,
// capacities and eager messages. Only the channel model is fixed.

#include "backend/threads/thread_run.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/task_room.hpp"
#include "backend/threads/in_process_transport.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "scenarios/host/process_limits.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

namespace {

constexpr std::string_view kThreadTransport = "in-process";

tl::expected<ExecutedRun, ExecutionError> once(const PreparedRun& run) {
  const SteadyClock clock(run.options.time_scale);
  StageModules modules = run.family.modules(std::nullopt, clock);
  InProcessTransport transport(run.flat, run.channels, run.pace, clock);
  return execute_on_threads(run, modules, transport, clock);
}

tl::expected<std::vector<ExecutedRun>, ExecutionError> all(const PreparedRun& run) {
  std::vector<ExecutedRun> runs;
  for (std::int32_t i = 0; i < run.runs(); ++i) {
    auto executed = once(run);
    if (!executed) return tl::unexpected(std::move(executed.error()));
    runs.push_back(*std::move(executed));
    run.report_finished(runs.size());
  }
  return runs;
}

}  // namespace

ChannelOptions thread_channels(const ChannelOptions& asked) {
  ChannelOptions channels = asked;
  channels.model = find_transport(kThreadTransport)->channels.model;
  // Messages between threads start as soon as they can. The order in which ranks launch them does not matter.
  channels.launch_order = false;
  return channels;
}

tl::expected<Result, UserError> run_on_threads(const Experiment& experiment, const PaceOfLinks& pace,
                                               const RunOptions& options, const ModuleFamily& family) {
  const auto refusal = [](const FlatProgram& flat) {
    return threads_refusal(static_cast<std::size_t>(flat.rank_count), thread_room());
  };
  auto result = measure(experiment, pace, options, family,
                        {.engine = "cpu-thread",
                         .transport = kThreadTransport,
                         .channels = thread_channels(experiment.channels),
                         .execute = all,
                         .refusal = refusal});
  if (!result) return tl::unexpected(std::move(result.error()));
  return **std::move(result);
}

// Checks that the process has enough address space for the stacks of all threads. If the stacks use all of
// this space, the threads still start, but every later allocation fails, even the allocation of an error
// message. A quarter of the address space is therefore reserved for the run itself. The kernel also limits
// the numbers of address ranges, threads and processes. Tests: tests/backend/thread_run_test.cpp.

namespace {

/// Returns how many memory mappings (address ranges) the process may still create, or nothing if this is
/// unknown. vm.max_map_count is the limit, and each line of /proc/self/maps is one existing mapping.
std::optional<std::int64_t> mappings_left() {
  std::ifstream bound("/proc/sys/vm/max_map_count");
  std::int64_t most = 0;
  if (!(bound >> most)) return std::nullopt;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) --most;
  return std::max<std::int64_t>(0, most);
}

}  // namespace

ThreadRoom thread_room() {
  return {.stack = stack_of_a_thread(),
          .left = addresses_left(),
          .mappings = mappings_left(),
          .tasks = task_room()};
}

std::optional<std::string> threads_refusal(std::size_t threads, const ThreadRoom& room) {
  const auto count = static_cast<std::int64_t>(threads);
  if (room.tasks && count > room.tasks->left) {
    return fmt::format(
        "{} ranks take a thread each, and {} more threads may be started here ({}): take fewer ranks, or "
        "allow more",
        threads, room.tasks->left, room.tasks->bound);
  }
  if (room.left && count > *room.left / 4 * 3 / std::max<Bytes>(1, room.stack)) {
    return fmt::format(
        "{} ranks take a thread each, and stacks of {} leave room for {} in the {} of addresses within "
        "reach (ulimit -v): take fewer ranks, or smaller stacks (ulimit -s 512), or allow more addresses",
        threads, format_bytes(room.stack), *room.left / 4 * 3 / std::max<Bytes>(1, room.stack),
        format_bytes(*room.left));
  }
  if (room.mappings && count > *room.mappings / 4 * 3 / 2) {
    return fmt::format(
        "{} ranks take a thread each, and the kernel lets a process have the stacks of {} more "
        "(vm.max_map_count): take fewer ranks, or allow more",
        threads, *room.mappings / 4 * 3 / 2);
  }
  return std::nullopt;
}

}  // namespace penstock
