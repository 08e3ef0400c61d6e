#pragma once
// The control groups of Linux that limit this process. The files in a group's folder contain its limits and
// usage. memory_room.hpp and backend/executor/task_room.hpp read these files. A line of /proc/self/cgroup has
// the form "ID:CONTROLLERS:GROUP". Version 2 has one group for all controllers, and its line does not name
// them:
//
//   4:memory:/job       /sys/fs/cgroup/memory/job   /sys/fs/cgroup/memory
//   0::/job/step        /sys/fs/cgroup/job/step     /sys/fs/cgroup/job       /sys/fs/cgroup
//
// A limit of a group applies to all groups below it.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace penstock {

/// The file that lists the groups of a process, and the folder of the groups.
struct ControlGroupFiles {
  std::filesystem::path list = "/proc/self/cgroup";
  std::filesystem::path mount = "/sys/fs/cgroup";
};

/// The version of a control group. The versions have different names for their files.
enum class ControlGroupVersion : std::uint8_t { first, second };

/// One control group.
struct ControlGroup {
  std::filesystem::path folder;
  ControlGroupVersion version = ControlGroupVersion::second;
};

/// Returns the process's group for a controller ("memory", "pids") and all groups above it up to the mount,
/// for both versions. The folders may be missing. Returns an empty list if the process has no such group.
std::vector<ControlGroup> control_groups(std::string_view controller, const ControlGroupFiles& files = {});

/// Returns the number at the beginning of a file. Returns nothing if the file contains "max" or does not
/// exist.
std::optional<std::int64_t> number_in(const std::filesystem::path& file);

}  // namespace penstock
