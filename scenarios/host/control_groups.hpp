#pragma once
// The control groups of Linux that bound this process. Files that stand in their folders name bounds and what
// has been taken of them: memory_room.hpp and backend/executor/task_room.hpp read them.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace penstock {

/// Where the groups of a process are listed, and where their folders are.
struct ControlGroupFiles {
  std::filesystem::path list = "/proc/self/cgroup";
  std::filesystem::path mount = "/sys/fs/cgroup";
};

/// Their files have other names in each version.
enum class ControlGroupVersion : std::uint8_t { first, second };

struct ControlGroup {
  std::filesystem::path folder;
  ControlGroupVersion version = ControlGroupVersion::second;
};

/// The process's group of this controller ("memory", "pids") and all above it, up to the mount, of both
/// versions. Folders need not be there; none where no group is listed.
std::vector<ControlGroup> control_groups(std::string_view controller, const ControlGroupFiles& files = {});

/// The number that a file of one line begins with; nothing of "max", and where there is no such file.
std::optional<std::int64_t> number_in(const std::filesystem::path& file);

}  // namespace penstock
