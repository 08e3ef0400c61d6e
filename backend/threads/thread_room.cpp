// Checks that the process has enough address space for the stacks of all threads. If the stacks use all of
// this space, the threads still start, but any later allocation fails, even for an error message. A quarter
// of the address space is therefore reserved for the run itself. The kernel also limits the numbers of
// address ranges, threads and processes. Tests: tests/backend/thread_run_test.cpp.

#include "backend/threads/thread_room.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "backend/executor/task_room.hpp"
#include "report/print/units.hpp"
#include "scenarios/host/memory_room.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// Returns how many address ranges the process may still create, or nothing if this is unknown. The limit is
/// vm.max_map_count. Each line of /proc/self/maps is one existing range.
std::optional<std::int64_t> mappings_left() {
  std::ifstream bound("/proc/sys/vm/max_map_count");
  std::int64_t most = 0;
  if (!(bound >> most)) return std::nullopt;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) --most;
  return std::max<std::int64_t>(0, most);
}

}  // namespace

ThreadRoom thread_room() {
  return {.stack = stack_of_a_thread(),
          .left = addresses_left(),
          .mappings = mappings_left(),
          .tasks = task_room()};
}

std::optional<std::string> threads_refusal(std::size_t threads, const ThreadRoom& room) {
  const auto count = static_cast<std::int64_t>(threads);
  if (room.tasks && count > room.tasks->left) {
    return fmt::format(
        "{} ranks take a thread each, and {} more threads may be started here ({}): take fewer ranks, or "
        "allow more",
        threads, room.tasks->left, room.tasks->bound);
  }
  if (room.left && count > *room.left / 4 * 3 / std::max<Bytes>(1, room.stack)) {
    return fmt::format(
        "{} ranks take a thread each, and stacks of {} leave room for {} in the {} of addresses within "
        "reach (ulimit -v): take fewer ranks, or smaller stacks (ulimit -s 512), or allow more addresses",
        threads, format_bytes(room.stack), *room.left / 4 * 3 / std::max<Bytes>(1, room.stack),
        format_bytes(*room.left));
  }
  if (room.mappings && count > *room.mappings / 4 * 3 / 2) {
    return fmt::format(
        "{} ranks take a thread each, and the kernel lets a process have the stacks of {} more "
        "(vm.max_map_count): take fewer ranks, or allow more",
        threads, *room.mappings / 4 * 3 / 2);
  }
  return std::nullopt;
}

}  // namespace penstock
