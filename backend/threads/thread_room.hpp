#pragma once
// Checks whether this process has room for one thread a rank, before the first one is started.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "backend/executor/task_room.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The limits of threads in this process. A limit is absent if there is none or it cannot be read.
struct ThreadRoom {
  Bytes stack = 0;              ///< bytes of addresses for the stack of one thread
  std::optional<Bytes> left{};  ///< bytes of addresses that this process may still use (ulimit -v)
  /// Address ranges that may still be made; a stack and its guard page are two.
  std::optional<std::int64_t> mappings{};
  std::optional<TaskRoom> tasks{};
};

/// Returns the limits of this process.
ThreadRoom thread_room();

/// Returns why this many threads have no room, and what the user can do. Returns nothing if they have room.
std::optional<std::string> threads_refusal(std::size_t threads, const ThreadRoom& room);

}  // namespace penstock
