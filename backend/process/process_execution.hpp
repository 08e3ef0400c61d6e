#pragma once
// Executes a lowered program with one process a rank and sockets between them. worker.hpp has what each
// process does, and coordinator.hpp what watches them.

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
  /// The queue that runs the rank's compute actions; null if the rank's thread runs them. It must outlive the
  /// transport, which ends the queue's waits.
  std::unique_ptr<ComputeQueue> queue{};
  std::unique_ptr<Transport> transport;
  /// Returns the times of the messages for which the rank accounts (messages_of in socket_transport.hpp),
  /// when all have started. Throws Stopped.
  std::function<std::vector<MessageTime>()> own_times;
  /// Receives the frames that a peer's transport sent, on another thread. May be empty.
  std::function<void(std::int32_t peer, const Frame&)> receive{};
};
/// The resources that a run's transport may use. The references are valid during the run.
struct RankRun {
  std::int32_t run = 0;
  const Clock& clock;  ///< all ranks share this clock
  /// Sends a frame. Never waits; frames for one peer arrive in order.
  std::function<void(std::int32_t peer, Frame)> send;
};
/// A function that makes the transport of each run, on the thread that executes the rank's list.
using MakeRankTransport = std::function<RankTransport(const RankRun&)>;

/// The arguments that all processes of a run share. All references must outlive the call that takes them.
struct ProcessExecution {
  const Program& program;   ///< must be valid, lowered, and free of hangs on directed channels
  const FlatProgram& flat;  ///< must be built for directed channels without capacity and eager messages
  /// Returns new modules. Called in each rank's process before each run. Only those of the rank need to be
  /// present.
  std::function<StageModules(std::int32_t rank, const Clock& clock)> modules;
  LinkPace pace{};
  const PayloadCodec* codec = nullptr;  ///< may be null if all payloads are null
  /// Limit of an encoded payload. A longer one that does not fit into a chunk makes the receiver close its
  /// connection.
  std::size_t most_payload_bytes = 0;
  double time_scale = 1;  ///< time scale of the SteadyClock; > 0
  std::int32_t runs = 1;  ///< number of runs of the whole program, one after the other
  /// Host time after which a run fails if a compute action has not ended, no worker makes progress, or a
  /// process gives no sign of life. At least 10 ms.
  std::chrono::nanoseconds deadline = std::chrono::minutes(1);
  /// Limit for all processes to join, and to get ready for each run.
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
  /// Limit for all processes to join, if the user set one. Otherwise `patience`; of forked processes at most
  /// the deadline.
  std::optional<std::chrono::nanoseconds> patience_to_join{};
  /// Returns the rank's account. Called in each rank's process after each run; may be empty. An exception
  /// makes the run fail.
  std::function<RankAccount(std::int32_t rank, const StageModules& modules)> finished{};
  /// Makes what moves messages; empty: sockets. Called once in each rank's process, when the ranks have
  /// joined. An exception makes the run fail. While it waits, it should check `stopped` and then throw
  /// Stopped.
  std::function<MakeRankTransport(std::int32_t rank, const std::function<bool()>& stopped)> transport{};
  /// Called in the parent when all ranks are forked, so that it can close what it holds for them. May be
  /// empty.
  std::function<void()> forked{};
};

/// Returns how long processes that a launcher has started wait for each other.
inline std::chrono::nanoseconds launched_patience(const ProcessExecution& execution) {
  return execution.patience_to_join.value_or(execution.patience);
}

/// Forks a process for each rank and runs the program in them. When a process fails, ends or falls silent,
/// all others end. No child is left when the function returns. The calling process must have no other
/// threads.
tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_in_processes(
    const ProcessExecution& execution);

/// The rank of a process that a launcher has started, and the address of its coordinator.
struct ProcessPlace {
  std::int32_t rank = 0;
  Endpoint coordinator;  ///< address at which rank 0 listens for the others
  /// Secret that all processes of the job know. Empty: rank 0 makes one and writes it to a file for this
  /// user's processes on this host (job_secret.hpp).
  std::string secret{};
  HostClock host{};  ///< rank 0 must have this machine's clock
};
/// Takes part as one rank. Rank 0 returns the runs; the others return none.
tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_as_rank(const ProcessExecution& execution,
                                                                       const ProcessPlace& place);

}  // namespace penstock
