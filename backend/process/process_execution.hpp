#pragma once
// Executes a lowered program with one process a rank and sockets between them. What each process does is in
// worker.hpp, who watches over them in coordinator.hpp.

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

/// What moves the messages of one rank in one run.
struct RankTransport {
  /// Where the rank's compute actions run; null: on the thread that executes its list. Outlives the
  /// transport, which ends what it waits for.
  std::unique_ptr<ComputeQueue> queue{};
  std::unique_ptr<Transport> transport;
  /// Of the messages that the rank accounts for (socket_transport.hpp, messages_of), when all have started.
  /// Throws Stopped.
  std::function<std::vector<MessageTime>()> own_times;
  /// Gets the frames that a peer's transport sent, on another thread; may be empty.
  std::function<void(std::int32_t peer, const Frame&)> receive{};
};
/// What a run's transport may use. References are good for the run.
struct RankRun {
  std::int32_t run = 0;
  const Clock& clock;  ///< that all ranks share
  /// Never waits; frames for one peer arrive in order.
  std::function<void(std::int32_t peer, Frame)> send;
};
/// Makes the transport of each run, on the thread that executes the rank's list.
using MakeRankTransport = std::function<RankTransport(const RankRun&)>;

/// What all processes of a run have in common. All references must outlive the call that takes it.
struct ProcessExecution {
  const Program& program;   ///< validated, lowered, and found free of hangs on directed channels
  const FlatProgram& flat;  ///< laid out for directed channels without capacity and eager messages
  /// Called in each rank's process before each run; only what the rank holds need be there.
  std::function<StageModules(std::int32_t rank, const Clock& clock)> modules;
  LinkPace pace{};
  const PayloadCodec* codec = nullptr;  ///< may be null where all payloads are null
  /// Of one payload, as the codec encodes it; one that is longer, and does not fit in a chunk, ends its
  /// connection.
  std::size_t most_payload_bytes = 0;
  double time_scale = 1;  ///< > 0, as of SteadyClock
  std::int32_t runs = 1;  ///< of the whole program, one after the other
  /// A run has failed when a compute action takes longer, when no worker gets on for so long, or when a
  /// process gives no sign of life for so long. Host time, 10 ms or more.
  std::chrono::nanoseconds deadline = std::chrono::minutes(1);
  /// For all processes to come together, and to make ready for each run.
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
  /// For them to come together, where that is asked for. Nothing: patience, and of forked processes no more
  /// than the deadline.
  std::optional<std::chrono::nanoseconds> patience_to_join{};
  /// May be empty. Called in each rank's process after each run; what it throws is the run's failure, what
  /// it returns is the rank's account.
  std::function<RankAccount(std::int32_t rank, const StageModules& modules)> finished{};
  /// What moves messages; empty: sockets. Called once in each rank's process, when the ranks have met; what
  /// it throws is the run's failure. It should look at `stopped` when it waits, and throw Stopped.
  std::function<MakeRankTransport(std::int32_t rank, const std::function<bool()>& stopped)> transport{};
  /// May be empty. Called by who forks the ranks, when all have been: what it holds for them can be closed.
  std::function<void()> forked{};
};

/// How long processes that somebody else has started wait for each other.
inline std::chrono::nanoseconds launched_patience(const ProcessExecution& execution) {
  return execution.patience_to_join.value_or(execution.patience);
}

/// Forks a process for each rank and runs the program in them. When a process fails, ends
/// or falls silent, all others end. No child is left when it returns. The calling process must have no other
/// threads.
tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_in_processes(
    const ProcessExecution& execution);

/// Where a process stands among those that somebody else has started.
struct ProcessPlace {
  std::int32_t rank = 0;
  Endpoint coordinator;  ///< where rank 0 listens for the others
  /// That all processes of the job know; empty: rank 0 makes one and leaves it to this user's processes on
  /// this host (job_secret.hpp).
  std::string secret{};
  HostClock host{};  ///< rank 0's is this machine's
};
/// Takes part as one rank. Rank 0 returns the runs, the others return none.
tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_as_rank(const ProcessExecution& execution,
                                                                       const ProcessPlace& place);

}  // namespace penstock
