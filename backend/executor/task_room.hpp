#pragma once
// The number of threads and processes that this user may still start here, checked before the first one is
// started.

#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock {

/// The remaining tasks. Linux counts threads and processes alike, as tasks.
struct TaskRoom {
  std::int64_t left = 0;   ///< tasks that may still be started
  std::string_view bound;  ///< name of the bound: "ulimit -u"
};

/// Returns the smallest of three bounds: that of the user (root has none), those of this process's control
/// groups, and the system's. Returns nothing if none can be read. Other users and jobs share the bounds, so a
/// start may still fail.
std::optional<TaskRoom> task_room();

}  // namespace penstock
