#pragma once
// Whether this process has room for a thread a rank, known before the first one is started.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "backend/executor/task_room.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// What bounds the threads of this process; nothing where that has no bound, or none that can be read.
struct ThreadRoom {
  Bytes stack = 0;                         ///< addresses that a thread's stack takes
  std::optional<Bytes> left{};             ///< addresses that this process may still take (ulimit -v)
  std::optional<std::int64_t> mappings{};  ///< ranges of addresses, of which a stack and its guard are two
  std::optional<TaskRoom> tasks{};
};

/// Of this process.
ThreadRoom thread_room();

/// Why so many threads have no room, with what to do; nothing where they have.
std::optional<std::string> threads_refusal(std::size_t threads, const ThreadRoom& room);

}  // namespace penstock
