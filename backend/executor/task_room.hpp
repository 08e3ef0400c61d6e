#pragma once
// Finds how many tasks (threads and processes) this user may still start on this machine. Runs check this
// before they start the first one.

#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock {

/// The number of tasks (threads and processes) that may still be started. Linux counts both in the same
/// limits.
struct TaskRoom {
  std::int64_t left = 0;   ///< number of tasks that may still be started
  std::string_view bound;  ///< name of the limit that gives `left`, such as "ulimit -u"
};

/// Returns the smallest of three limits: the limit of the user (root has none), of this process's control
/// groups, and of the system. Returns nothing if none can be read. Other jobs share these limits, so a start
/// may still fail.
std::optional<TaskRoom> task_room();

}  // namespace penstock
