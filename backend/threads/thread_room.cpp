// Threads whose stacks leave no address to the process do not fail where they are started: the next
// allocation does, wherever it is, also that of the message which would say so. A quarter of the addresses is
// left to the run itself.

#include "backend/threads/thread_room.hpp"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

std::optional<Bytes> stack_of_a_thread() {
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) != 0) return std::nullopt;
  std::size_t bytes = 0;
  const bool is_known = pthread_attr_getstacksize(&attributes, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  return is_known ? std::optional(static_cast<Bytes>(bytes)) : std::nullopt;
}

/// From the first number of /proc/self/statm.
std::optional<Bytes> taken_addresses() {
  std::ifstream statm("/proc/self/statm");
  Bytes pages = 0;
  constexpr Bytes kPageBytes = 4096;
  return statm >> pages ? std::optional(pages * kPageBytes) : std::nullopt;
}

}  // namespace

std::optional<ThreadRoom> thread_room() {
  rlimit bound{};
  if (getrlimit(RLIMIT_AS, &bound) != 0 || bound.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const auto stack = stack_of_a_thread();
  const auto taken = taken_addresses();
  if (!stack || !taken) return std::nullopt;
  return ThreadRoom{.stack = *stack, .left = std::max<Bytes>(0, static_cast<Bytes>(bound.rlim_cur) - *taken)};
}

std::optional<std::string> threads_refusal(std::size_t threads, const ThreadRoom& room) {
  const Bytes most = room.left / 4 * 3 / std::max<Bytes>(1, room.stack);
  if (threads <= static_cast<std::size_t>(most)) return std::nullopt;
  return fmt::format(
      "{} ranks take a thread each, and stacks of {} leave room for {} in the {} of addresses within reach: "
      "take fewer ranks, or smaller stacks (ulimit -s 512)",
      threads, format_bytes(room.stack), most, format_bytes(room.left));
}

}  // namespace penstock
