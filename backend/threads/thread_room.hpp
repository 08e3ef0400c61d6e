#pragma once
// Checks whether this process has enough resources for one thread per rank, before the first one is started.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "backend/executor/task_room.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The resources for threads in this process. A value is absent if there is no limit or it cannot be read.
struct ThreadRoom {
  Bytes stack = 0;              ///< bytes of address space for the stack of one thread
  std::optional<Bytes> left{};  ///< bytes of address space that this process may still use (ulimit -v)
  /// The number of address ranges (mappings) that this process may still create. The stack of a thread and
  /// its guard page are two.
  std::optional<std::int64_t> mappings{};
  std::optional<TaskRoom> tasks{};
};

/// Returns the resources that this process may still use.
ThreadRoom thread_room();

/// Returns which resource is too small for this many threads, and what the user can do. Returns nothing if
/// all are sufficient.
std::optional<std::string> threads_refusal(std::size_t threads, const ThreadRoom& room);

}  // namespace penstock
