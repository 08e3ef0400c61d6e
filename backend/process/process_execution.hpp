#pragma once
// Executes a lowered program with one process for each rank and sockets between the processes. worker.hpp has
// the work of each process. coordinator.hpp starts and watches the workers.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/executor/clock.hpp"
#include "backend/executor/compute_queue.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/link_pace.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/clock_alignment.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The transport of one rank in one run.
struct RankTransport {
  /// The queue that runs the rank's compute actions, or null if the rank's thread runs them. It must outlive
  /// the transport, which ends the queue's waits.
  std::unique_ptr<ComputeQueue> queue{};
  std::unique_ptr<Transport> transport;
  /// Waits until all messages that this rank reports (messages_of in socket_transport.hpp) have started, and
  /// returns their times. Throws Stopped.
  std::function<std::vector<MessageTime>()> own_times;
  /// Receives a frame that the transport of `peer` sent. It is called on another thread. May be empty.
  std::function<void(std::int32_t peer, const Frame&)> receive{};
};
/// The arguments for making the transport of one run. The references are valid during the run.
struct RankRun {
  std::int32_t run = 0;
  const Clock& clock;  ///< clock that all ranks share
  /// Sends a frame to `peer`. Never waits. Frames for one peer arrive in order.
  std::function<void(std::int32_t peer, Frame)> send;
};
/// A function that makes the transport of one run. It is called on the thread that executes the rank's list.
using MakeRankTransport = std::function<RankTransport(const RankRun&)>;

/// The arguments that all processes of a run share. All references must outlive the call of
/// execute_in_processes() or execute_as_rank().
struct ProcessExecution {
  const Program& program;  ///< valid, lowered program that does not hang on directed channels
  /// The flattened program. It must be built for directed channels, without a capacity limit and without
  /// eager messages.
  const FlatProgram& flat;
  /// Returns new modules. Each rank's process calls it before each run. Only the modules of `rank` must be
  /// present.
  std::function<StageModules(std::int32_t rank, const Clock& clock)> modules;
  LinkPace pace{};
  const PayloadCodec* codec = nullptr;  ///< codec of the payloads; may be null if all payloads are null
  /// The largest number of bytes of an encoded payload. If a longer payload does not fit into one chunk, the
  /// receiver closes the connection.
  std::size_t most_payload_bytes = 0;
  double time_scale = 1;  ///< number of host ns in one ns of the run's clock; > 0
  std::int32_t runs = 1;  ///< number of times that the whole program runs, one after the other
  /// The host time after which the run fails if a compute action has not ended. The same limit applies if no
  /// worker makes progress, or if a process sends no message. At least 10 ms.
  std::chrono::nanoseconds deadline = std::chrono::minutes(1);
  /// The time within which all processes must join, and within which they must get ready for each run.
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
  /// The time within which all processes must join, if the user set one. Otherwise the limit is `patience`,
  /// and for forked processes at most the deadline.
  std::optional<std::chrono::nanoseconds> patience_to_join{};
  /// Returns the data that the rank's modules report. Each rank's process calls it after each run. May be
  /// empty. If it throws, the run fails.
  std::function<RankAccount(std::int32_t rank, const StageModules& modules)> finished{};
  /// Returns a function that makes the transport of each run. If empty, messages go over sockets. Each rank's
  /// process calls it once, when all ranks have joined. If it throws, the run fails. While it waits, it
  /// should call `stopped()` and throw Stopped if the result is true.
  std::function<MakeRankTransport(std::int32_t rank, const std::function<bool()>& stopped)> transport{};
  /// Called in the parent process when all ranks are forked, so that it can close descriptors that only the
  /// ranks need. May be empty.
  std::function<void()> forked{};
};

/// Returns the time for which processes that a launcher has started wait for each other.
inline std::chrono::nanoseconds launched_patience(const ProcessExecution& execution) {
  return execution.patience_to_join.value_or(execution.patience);
}

/// Forks one process for each rank and runs the program in them. If a process fails, ends or stops sending
/// messages, ends all others. When the function returns, no child process exists. Requires that the calling
/// process has no other threads.
tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_in_processes(
    const ProcessExecution& execution);

/// The rank of a process that a launcher has started, and the address of its coordinator.
struct ProcessPlace {
  std::int32_t rank = 0;
  Endpoint coordinator;  ///< address at which rank 0 listens for the other ranks
  /// The secret that all processes of the job know. If empty, rank 0 makes one and writes it to a file for
  /// this user's processes on this host (job_secret.hpp).
  std::string secret{};
  HostClock host{};  ///< clock that this rank reports; for rank 0, it must be this machine's clock
};
/// Takes part in a run as one rank. Rank 0 returns the runs, and all other ranks return an empty list.
tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_as_rank(const ProcessExecution& execution,
                                                                       const ProcessPlace& place);

}  // namespace penstock
