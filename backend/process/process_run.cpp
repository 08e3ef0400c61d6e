// The `cpu-process` backend. It states the channel options of sockets. It passes measure()
// (measured_run.hpp) a function that executes the program in processes.

#include "backend/process/process_run.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/task_room.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/socket_transport.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "scenarios/host/process_limits.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

namespace {

constexpr std::string_view kSocketTransport = "sockets";

tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_with(
    const PreparedRun& run, const std::optional<ProcessPlace>& place) {
  const Experiment& experiment = run.experiment;
  const ProcessExecution execution = {
      .program = experiment.program,
      .flat = run.flat,
      .modules = [&](std::int32_t rank, const Clock& clock) { return run.family.modules(rank, clock); },
      .pace = run.pace,
      .codec = run.family.codec(),
      .most_payload_bytes = run.family.most_payload_bytes(),
      .time_scale = run.options.time_scale,
      .runs = run.runs(),
      .deadline = run.deadline,
      .patience_to_join = patience_to_join(run.options),
      .finished = [&](std::int32_t rank,
                      const StageModules& modules) { return run.family.account(rank, modules); },
      .progress = [&](std::size_t done) { run.report_finished(done); }};
  return place ? execute_as_rank(execution, *place) : execute_in_processes(execution);
}

std::optional<std::string> refusal_of(const FlatProgram& flat, const RunOptions& options,
                                      const std::optional<ProcessPlace>& place) {
  ProcessRoom room = process_room();
  if (place) return launched_refusal(flat, place->rank, room);
  room.memory = options.memory;
  return processes_refusal(process_need(flat), room);
}

}  // namespace

tl::expected<std::optional<Result>, UserError> run_on_processes(const Experiment& experiment,
                                                                const PaceOfLinks& pace,
                                                                const RunOptions& options,
                                                                const ModuleFamily& family,
                                                                const std::optional<ProcessPlace>& place) {
  const auto channels = declared_channels(experiment.channels, kSocketTransport);
  if (!channels) return user_error(ErrorKind::check_failed, channels.error());
  return measure(experiment, pace, options, family,
                 {.engine = "cpu-process",
                  .transport = kSocketTransport,
                  .channels = *channels,
                  .execute = [&](const PreparedRun& run) { return execute_with(run, place); },
                  .refusal = [&](const FlatProgram& flat) { return refusal_of(flat, options, place); }});
}

// Checks that the machine has enough resources for all processes. Without the check, the run could use up all
// processes, descriptors or memory of the machine. The check counts descriptors in the order in which
// RankSockets opens and closes them:
//
//     rank r   opens    its pair with the coordinator, and one pair with each peer of a higher rank
//     forked   closes   its own ends: one to the coordinator, one to each peer
//
// The memory of a process is a fixed part plus the times that it stores for the whole program. A process also
// needs address space for the full stacks of its threads. Otherwise it ends when it starts its first thread.
// Tests: tests/backend/process_run_test.cpp.

namespace {

/// The number of threads that each process has: one runs the rank's list, and one moves the frames of its
/// sockets.
constexpr std::int64_t kTasksOfEach = 2;
/// The number of threads that a process starts later, so that their stacks do not exist yet. A launched rank
/// 0 starts one more thread, for the coordinator.
constexpr std::int64_t kStacksOfEach = kTasksOfEach - 1;
constexpr std::int64_t kStacksOfCoordinator = 1;
/// The number of descriptors of the coordinator's event loop, and of files that are open for a short time.
constexpr std::int64_t kOtherDescriptors = 16;
/// The largest number of connections to a launched rank that have not yet proved that they know the job's
/// secret (socket_loop.cpp).
constexpr std::int64_t kStrangers = 128;
/// The fixed part of a process's memory, in bytes: stacks, page tables and the buffers of a socket loop.
/// The value was measured and rounded down.
constexpr Bytes kBytesOfEach = Bytes{640} << 10;
constexpr Bytes kBytesOfPosition = 16;  // the start and the end of one action
constexpr Bytes kBytesOfMessage = 20;   // the start and the end of a message, and the index of its state

/// Returns the largest number of descriptors that the parent process has open between two forks.
std::int64_t most_descriptors(const FlatProgram& flat) {
  std::int64_t open = 0;
  std::int64_t most = 0;
  for (std::int32_t rank = 0; const std::vector<std::int32_t>& peers : peers_of_ranks(flat)) {
    const auto above = peers.end() - std::ranges::upper_bound(peers, rank++);
    open += 2 * (1 + above);
    most = std::max(most, open);
    open -= 1 + std::ssize(peers);
  }
  return most + kOtherDescriptors;
}

std::optional<std::int64_t> descriptors_left() {
  rlimit bound{};
  // MostDescriptors raises the soft limit to rlim_max before the processes start.
  if (getrlimit(RLIMIT_NOFILE, &bound) != 0 || bound.rlim_max == RLIM_INFINITY) return std::nullopt;
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  if (error) return std::nullopt;
  return static_cast<std::int64_t>(bound.rlim_max) - std::distance(begin(open), end(open));
}

/// Returns the memory of a process in bytes: the times that it stores for the program, plus a fixed amount.
Bytes memory_of_a_process(const FlatProgram& flat) {
  const auto positions = static_cast<Bytes>(flat.ops.size());
  const auto messages = static_cast<Bytes>(flat.messages.size());
  return kBytesOfEach + kBytesOfPosition * positions + kBytesOfMessage * messages;
}

/// Returns an error if memory and stacks exceed the address space that is still available (`left`). `who`
/// names the processes in the message.
std::optional<std::string> refusal_of_addresses(std::string_view who, Bytes memory, Bytes stacks,
                                                const std::optional<Bytes>& left) {
  if (!left || memory + stacks <= *left) return std::nullopt;
  return fmt::format(
      "{} at least {} of addresses, {} of them for stacks of threads, and {} are within reach (ulimit -v): "
      "allow more addresses, or take smaller stacks (ulimit -s 512), fewer microbatches or iterations",
      who, format_bytes(memory + stacks), format_bytes(stacks), format_bytes(*left));
}

}  // namespace

ProcessNeed process_need(const FlatProgram& flat) {
  return {.ranks = flat.rank_count,
          .descriptors = most_descriptors(flat),
          .of_each = memory_of_a_process(flat),
          .stacks_of_each = kStacksOfEach * stack_of_a_thread()};
}

ProcessRoom process_room() {
  return {.descriptors = descriptors_left(), .tasks = task_room(), .addresses = addresses_left()};
}

std::optional<std::string> processes_refusal(const ProcessNeed& need, const ProcessRoom& room) {
  const std::int64_t tasks = kTasksOfEach * need.ranks;
  if (room.tasks && tasks > room.tasks->left) {
    return fmt::format(
        "{} ranks take a process of two threads each, and {} more threads may be started here ({}): take "
        "fewer ranks, or allow more",
        need.ranks, room.tasks->left, room.tasks->bound);
  }
  if (room.descriptors && need.descriptors > *room.descriptors) {
    return fmt::format(
        "{} ranks take a process each, and {} open files in the one that starts them, which may open {} "
        "more: "
        "take fewer ranks, or allow more open files (ulimit -Hn)",
        need.ranks, need.descriptors, std::max<std::int64_t>(0, *room.descriptors));
  }
  if (auto refusal =
          lack_of_memory(fmt::format("{} processes, one for each rank,", need.ranks),
                         static_cast<double>(need.of_each) * need.ranks, room.memory,
                         "take fewer ranks, microbatches or iterations, or --backend cpu-thread")) {
    return refusal;
  }
  return refusal_of_addresses(fmt::format("{} ranks take a process each, of", need.ranks), need.of_each,
                              need.stacks_of_each, room.addresses);
}

std::optional<std::string> launched_refusal(const FlatProgram& flat, std::int32_t rank,
                                            const ProcessRoom& room) {
  const std::int64_t stacks = kStacksOfEach + (rank == 0 ? kStacksOfCoordinator : 0);
  if (auto refusal =
          refusal_of_addresses(fmt::format("rank {} of {} takes", rank, flat.rank_count),
                               memory_of_a_process(flat), stacks * stack_of_a_thread(), room.addresses))
    return refusal;
  const std::int64_t coordinated = rank == 0 ? flat.rank_count : 0;
  const std::int64_t needed = coordinated + std::ssize(peers_of(flat, rank)) + kStrangers + kOtherDescriptors;
  if (!room.descriptors || needed <= *room.descriptors) return std::nullopt;
  return fmt::format(
      "rank {} of {} takes {} open files, to be connected with the others, and may open {} more: allow more "
      "open files (ulimit -Hn), or take fewer ranks",
      rank, flat.rank_count, needed, std::max<std::int64_t>(0, *room.descriptors));
}

}  // namespace penstock
