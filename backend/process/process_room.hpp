#pragma once
// Checks whether this machine has room for one process a rank, before the first one is forked.

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
  std::int64_t descriptors = 0;  ///< largest number that is open at once in the process that forks the others
  Bytes of_each = 0;             ///< lower bound of the memory that a process does not share
  Bytes stacks_of_each = 0;      ///< addresses for the stacks of its threads, in addition
};
ProcessNeed process_need(const FlatProgram& flat);

/// The resources that are left on this machine. A value is absent if there is no limit or it cannot be read.
struct ProcessRoom {
  std::optional<std::int64_t> descriptors{};  ///< that may still be opened
  std::optional<TaskRoom> tasks{};
  std::optional<Bytes> memory{};
  std::optional<Bytes> addresses{};  ///< that a process forked now may still use (ulimit -v)
};
/// Returns the resources that this process may still use, without `memory`.
ProcessRoom process_room();

/// Returns why the processes have no room, and what the user can do. Returns nothing if they have room.
std::optional<std::string> processes_refusal(const ProcessNeed& need, const ProcessRoom& room);
/// Like processes_refusal(), for one rank's process that a launcher has started: whether it has room for its
/// threads and its connections.
std::optional<std::string> launched_refusal(const FlatProgram& flat, std::int32_t rank,
                                            const ProcessRoom& room);

}  // namespace penstock
