#pragma once
// How many threads and processes this user may still start here, known before the first one is.

#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock {

/// Linux counts threads and processes alike, as tasks.
struct TaskRoom {
  std::int64_t left = 0;   ///< tasks that may still be started
  std::string_view bound;  ///< what bounds them: "ulimit -u"
};

/// The nearest of the user's bound (which root has not), those of this process's control groups, and the
/// system's; nothing where none can be read. Other users and other jobs share them: a start may still fail.
std::optional<TaskRoom> task_room();

}  // namespace penstock
