#pragma once
// Whether this machine has room for a process a rank, known before the first one is forked.

#include <cstdint>
#include <optional>
#include <string>

#include "backend/executor/task_room.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// What a run in forked processes takes.
struct ProcessNeed {
  std::int32_t ranks = 0;
  std::int64_t descriptors = 0;  ///< open at once in the process that forks the others, at most
  Bytes of_each = 0;             ///< memory that a process shares with no other, from below
  Bytes stacks_of_each = 0;      ///< addresses that the stacks of its threads take beside it
};
ProcessNeed process_need(const FlatProgram& flat);

/// What is left of it here; nothing where it has no bound, or none that can be read.
struct ProcessRoom {
  std::optional<std::int64_t> descriptors{};  ///< beside those that are open
  std::optional<TaskRoom> tasks{};
  std::optional<Bytes> memory{};
  std::optional<Bytes> addresses{};  ///< that a process forked now may still take (ulimit -v)
};
/// Of this process, without its memory.
ProcessRoom process_room();

/// Why they have no room, with what to do; nothing where they have.
std::optional<std::string> processes_refusal(const ProcessNeed& need, const ProcessRoom& room);
/// The same of one rank's process that a launcher has started: whether it has room for its threads, and can
/// be connected with the others.
std::optional<std::string> launched_refusal(const FlatProgram& flat, std::int32_t rank,
                                            const ProcessRoom& room);

}  // namespace penstock
