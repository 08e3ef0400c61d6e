#pragma once
// Whether this process has room for a thread a rank, known before the first one is started.

#include <cstddef>
#include <optional>
#include <string>

#include "schedules/ir/action.hpp"

namespace penstock {

/// Bytes of addresses: those of a thread's stack, and those that this process may still take.
struct ThreadRoom {
  Bytes stack = 0;
  Bytes left = 0;
};

/// Of this process; nothing where its addresses have no bound (ulimit -v).
std::optional<ThreadRoom> thread_room();

/// Why so many threads have no room, with what to do; nothing where they have.
std::optional<std::string> threads_refusal(std::size_t threads, const ThreadRoom& room);

}  // namespace penstock
