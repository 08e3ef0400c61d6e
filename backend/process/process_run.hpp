#pragma once
// The `cpu-process` backend: one process a rank, with sockets between them.

#include <cstdint>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/task_room.hpp"
#include "backend/process/process_execution.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// Calls measure() with the ranks in children of this process, which must have no other threads. With a
/// `place`, the ranks are processes that a launcher has started, and only rank 0 gets a Result.
tl::expected<std::optional<Result>, UserError> run_on_processes(const Experiment& experiment,
                                                                const PaceOfLinks& pace,
                                                                const RunOptions& options,
                                                                const ModuleFamily& family,
                                                                const std::optional<ProcessPlace>& place);

// Checks whether this machine has enough resources for one process per rank, before the first one is forked.

/// The resources that a run in forked processes needs.
struct ProcessNeed {
  std::int32_t ranks = 0;
  /// The largest number of descriptors that the forking process has open at one time.
  std::int64_t descriptors = 0;
  Bytes of_each = 0;  ///< least memory that each process does not share with others
  /// Bytes of address space for the stacks of one process's threads, in addition to `of_each`.
  Bytes stacks_of_each = 0;
};
ProcessNeed process_need(const FlatProgram& flat);

/// The resources that are still available on this machine. A value is absent if there is no limit or it
/// cannot be read.
struct ProcessRoom {
  std::optional<std::int64_t> descriptors{};  ///< number of descriptors that may still be opened
  std::optional<TaskRoom> tasks{};
  std::optional<Bytes> memory{};
  /// Bytes of address space that a forked process may still use (ulimit -v).
  std::optional<Bytes> addresses{};
};
/// Returns the resources that this process may still use. Does not set `memory`.
ProcessRoom process_room();

/// Returns which resource is too small for the processes, and what the user can do. Returns nothing if all
/// are sufficient.
std::optional<std::string> processes_refusal(const ProcessNeed& need, const ProcessRoom& room);
/// Like processes_refusal(), but for the process of one rank that a launcher has started. Checks only its
/// threads and its connections.
std::optional<std::string> launched_refusal(const FlatProgram& flat, std::int32_t rank,
                                            const ProcessRoom& room);

}  // namespace penstock
