#pragma once
// Checks whether this machine has enough resources for one process per rank, before the first one is forked.

#include <cstdint>
#include <optional>
#include <string>

#include "backend/executor/task_room.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

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
