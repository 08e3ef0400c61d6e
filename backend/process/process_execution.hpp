#pragma once
// Executes a lowered program with one process for each rank and sockets between the processes.
// process_run.hpp contains the work of each process and the coordinator, which starts the run and watches the
// workers. executor.hpp runs the ranks as threads of one process instead.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/clock_alignment.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The transport of one rank in one run, its compute queue, and the functions that belong to the transport.
struct RankTransport {
  /// The queue that runs the rank's compute actions. It is null if the rank's thread runs them. It must
  /// outlive the transport, which ends the queue's waits.
  std::unique_ptr<ComputeQueue> queue{};
  std::unique_ptr<Transport> transport;
  /// Waits until all messages that this rank reports (messages_of in socket_transport.hpp) have started.
  /// Returns the times of these messages. Throws Stopped.
  std::function<std::vector<MessageTime>()> own_times;
  /// Handles a frame that the transport of `peer` has sent. It is called on another thread than the rank's
  /// own. May be empty.
  std::function<void(std::int32_t peer, const Frame&)> receive{};
};
/// The arguments for making the transport of one rank in one run. The references are valid during the run.
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
  /// Returns new stage modules. Each rank's process calls it before each run with its own `rank`. Only the
  /// modules of this rank must be present.
  std::function<StageModules(std::int32_t rank, const Clock& clock)> modules;
  LinkPace pace{};
  const PayloadCodec* codec = nullptr;  ///< codec of the payloads; it may be null if all payloads are null
  /// The largest number of bytes of an encoded payload. If a payload is longer and does not fit into one
  /// chunk, the receiver closes the connection.
  std::size_t most_payload_bytes = 0;
  double time_scale = 1;  ///< number of host ns in one ns of the run's clock; > 0
  std::int32_t runs = 1;  ///< number of times that the whole program runs, one after the other
  /// The longest host time that a compute action may take before the run fails. The run also fails if no
  /// worker makes progress for this time, or if a process sends no message for this time. At least 10 ms.
  std::chrono::nanoseconds deadline = std::chrono::minutes(1);
  /// The longest time until all processes have joined, and the longest time until they are ready for each
  /// run.
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
  /// The longest time until all processes have joined, if the user set one. Otherwise the limit is
  /// `patience`, and for forked processes at most the deadline.
  std::optional<std::chrono::nanoseconds> patience_to_join{};
  /// Returns the data that the rank's modules report. Each rank's process calls it after each run. May be
  /// empty. If it throws, the run fails.
  std::function<RankAccount(std::int32_t rank, const StageModules& modules)> finished{};
  /// Returns a function that makes the transport of each run. If this field is empty, messages go over
  /// sockets. Each rank's process calls it once, when all ranks have joined. If it throws, the run fails.
  /// While it waits, it should call `stopped()`, and throw Stopped if the result is true.
  std::function<MakeRankTransport(std::int32_t rank, const std::function<bool()>& stopped)> transport{};
  /// A function that the parent process calls when all ranks are forked. It can close descriptors that only
  /// the ranks need. May be empty.
  std::function<void()> forked{};
  /// A function that receives the number of finished runs. The process that coordinates the ranks calls it.
  /// May be empty.
  std::function<void(std::size_t done)> progress{};
};

/// Returns the longest time that processes which a launcher has started wait for each other.
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
  /// The secret that all processes of the job know. If it is empty, rank 0 makes a secret and writes it to
  /// a file (job_secret.hpp). This user's processes on this host can read the file.
  std::string secret{};
  HostClock host{};  ///< clock that this rank reports; for rank 0, it must be this machine's clock
};
/// Takes part in a run as the rank that `place` states. Rank 0 returns the runs, and all other ranks return
/// an empty list.
tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_as_rank(const ProcessExecution& execution,
                                                                       const ProcessPlace& place);

// Finds from environment variables the rank of a process that a launcher started (torchrun, mpirun or srun).

/// A function that returns the value of an environment variable, or null if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// The number of a process among all processes that a launcher started together.
struct LaunchedRank {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  const char* size_variable = "";  ///< name of the environment variable that gave `size`
};

/// Reads the rank and the number of ranks from environment variables. They are RANK and WORLD_SIZE
/// (torchrun), OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH), or SLURM_PROCID
/// and SLURM_NTASKS. Returns nothing if no variable for the rank is set. Fails if the number of ranks is
/// missing, or if a value is not a number or out of range.
tl::expected<std::optional<LaunchedRank>, std::string> launched_rank(const Environment& environment);

struct LaunchedProcess {
  ProcessPlace place;
  std::int32_t world_size = 1;
};

/// Reads from the environment variables of a launcher what a process must know to join the run. The rank
/// and the number of ranks are RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK and _SIZE (Open MPI),
/// or SLURM_PROCID and SLURM_NTASKS. The coordinator's address is MASTER_ADDR (default: the loopback
/// address). Its port is PENSTOCK_PORT, or MASTER_PORT if PENSTOCK_PORT is not set. If torchrun's own store
/// listens on MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE), the next port is used. PENSTOCK_SECRET is the
/// secret of the job.
/// Returns nothing if no launcher started this process. This is assumed if no rank is set, or if there is a
/// single rank and no port, as in a Slurm allocation. The error names the variable that is missing or
/// wrong.
tl::expected<std::optional<LaunchedProcess>, std::string> launched_process(const Environment& environment);

/// Returns the port of the key-value store that torchrun's agent provides and that the ranks may use. This
/// is MASTER_PORT if TORCHELASTIC_USE_AGENT_STORE is set. Returns nothing if there is no store or no valid
/// port.
std::optional<std::uint16_t> agent_store_port(const Environment& environment);

/// Returns the port after the coordinator's port, at which rank 0 may listen for another purpose. Fails if
/// the coordinator's port is 65535, the last one.
tl::expected<std::uint16_t, std::string> port_after(const Endpoint& coordinator);

/// Returns the rank of this process and its coordinator's address if a launcher has started it. Fails if
/// launched_process() fails, or if the launcher has not started exactly `ranks` processes.
tl::expected<std::optional<ProcessPlace>, std::string> launched_place(const Environment& environment,
                                                                      std::int32_t ranks);

}  // namespace penstock
