#pragma once
// The `cpu-process` backend: one process for each rank, connected by sockets. It needs no GPU.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/task_room.hpp"
#include "backend/process/fault_judge.hpp"
#include "backend/process/process_execution.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// Measures the experiment with one process for each rank. Without a `place`, this process forks the ranks;
/// it must have no other threads. With a `place`, a launcher has started the ranks, and only rank 0 gets a
/// Result.
tl::expected<std::optional<Result>, UserError> run_on_processes(const Experiment& experiment,
                                                                const PaceOfLinks& pace,
                                                                const RunOptions& options,
                                                                const ModuleFamily& family,
                                                                const std::optional<ProcessPlace>& place);

// Checks whether this machine has enough resources for one process for each rank, before the first process is
// started.

/// The resources that a run in forked processes needs.
struct ProcessNeed {
  std::int32_t ranks = 0;
  /// The largest number of file descriptors that the forking process has open at one time.
  std::int64_t descriptors = 0;
  Bytes of_each = 0;  ///< smallest memory in bytes that each process needs for itself alone
  /// The address space, in bytes, that the stacks of one process's threads need in addition to `of_each`.
  Bytes stacks_of_each = 0;
};
ProcessNeed process_need(const FlatProgram& flat);

/// The resources of this machine that new processes can still use. A value is absent if there is no limit or
/// if the limit cannot be read.
struct ProcessRoom {
  std::optional<std::int64_t> descriptors{};  ///< number of descriptors that may still be opened
  std::optional<TaskRoom> tasks{};
  std::optional<Bytes> memory{};
  /// Address space, in bytes, that a forked process may still use (ulimit -v).
  std::optional<Bytes> addresses{};
};
/// Returns the resources that this process may still use. Does not set the field `memory`.
ProcessRoom process_room();

/// Returns a text that names the resource that is too small for the processes, and says what the user can
/// do. Returns nothing if all resources are sufficient.
std::optional<std::string> processes_refusal(const ProcessNeed& need, const ProcessRoom& room);
/// Returns a text like that of processes_refusal() for the process of one rank that a launcher has started.
/// Checks only the address space and the file descriptors of this process.
std::optional<std::string> launched_refusal(const FlatProgram& flat, std::int32_t rank,
                                            const ProcessRoom& room);

// Connects the workers of a run, starts all of them at one moment, watches them, and combines their times.
// run_worker() is the other side of the protocol. Only process_execution.cpp uses it.

class Coordinator {
 public:
  /// Prepares the runs. `execution` must outlive this object, which stores a reference to it.
  Coordinator(const ProcessExecution& execution, RankProcesses processes);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator();

  /// Takes the coordinator's ends of the socket pairs, one for each rank. The workers have the other ends.
  void adopt(std::vector<Descriptor> workers);
  /// Listens at the coordinator's address in `place` for workers that know the secret. If `place` has no
  /// secret, makes one and writes it to a file. The file exists until all workers have joined. Returns the
  /// address and the secret for rank 0's own worker. Fails if the port is in use or the address does not
  /// exist.
  tl::expected<ProcessPlace, std::string> listen(const ProcessPlace& place);
  /// Performs all runs and returns them when all workers have disconnected. After a failure, does not wait
  /// for workers that no longer answer.
  tl::expected<std::vector<ExecutedRun>, ExecutionError> run();

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

// Runs one rank in its own process and reports to the Coordinator. Only process_execution.cpp uses it.

/// Joins the coordinator. Then runs the rank's list on the calling thread, once for each run that the
/// coordinator starts. The error is the failure of a run, or the reason why the coordinator cannot be
/// reached.
tl::expected<void, ExecutionError> run_worker(const ProcessExecution& execution, const ProcessPlace& place);
/// Does the same as the other run_worker(), but for a process that was forked. `ends` are its connections,
/// which already exist.
tl::expected<void, ExecutionError> run_worker(const ProcessExecution& execution, std::int32_t rank,
                                              RankEnds ends);

/// Returns an identifier of the present boot of this host. Two processes with equal identifiers share a
/// steady clock.
std::string boot_id();

/// Returns the time between two reports of a process. Usually it is at most an eighth of the deadline. With
/// very many ranks it may be longer, because the coordinator must handle all reports.
std::chrono::nanoseconds report_period(const ProcessExecution& execution);

}  // namespace penstock
