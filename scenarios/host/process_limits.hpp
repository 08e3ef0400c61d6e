#pragma once
// The control groups of Linux that limit this process. The files in a group's folder contain its limits and
// usage. process_limits.cpp and backend/executor/task_room.cpp read these files. A line of /proc/self/cgroup
// has the form "ID:CONTROLLERS:GROUP". Version 2 has one group for all controllers, so its line has no
// controllers:
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

#include "schedules/ir/action.hpp"

namespace penstock {

/// The two paths from which the control groups of a process are read: the file that lists the groups, and the
/// root folder of all groups.
struct ControlGroupFiles {
  std::filesystem::path list = "/proc/self/cgroup";
  std::filesystem::path mount = "/sys/fs/cgroup";
};

/// The version of Linux control groups (cgroup v1 or v2). The two versions have different names for their
/// files.
enum class ControlGroupVersion : std::uint8_t { first, second };

/// One control group of Linux.
struct ControlGroup {
  std::filesystem::path folder;
  ControlGroupVersion version = ControlGroupVersion::second;
};

/// Returns the process's control group for a controller ("memory" or "pids"), and all groups above it up to
/// the mount point. Reads both versions of control groups. The folders of the groups need not exist.
/// Returns an empty list if the process has no such group.
std::vector<ControlGroup> control_groups(std::string_view controller, const ControlGroupFiles& files = {});

/// Returns the number at the beginning of a control-group file. Returns nothing if the file contains "max"
/// (no limit) or does not exist.
std::optional<std::int64_t> number_in(const std::filesystem::path& file);

// Computes the memory and the address space that this process can still use.

/// Returns the bytes of the machine's memory that are available, or nothing if the system does not report
/// them.
std::optional<Bytes> available_memory();
/// Returns the bytes that this process may still use under the limits of its control groups. Cached files
/// do not count as used. Returns nothing if no group has a limit.
std::optional<Bytes> memory_of_control_groups(const ControlGroupFiles& files = {});
/// Returns the memory in bytes that this process should take at most. It is three quarters of the smaller
/// of available_memory() and memory_of_control_groups(). The rest is for other processes and for memory
/// that is not counted.
std::optional<Bytes> memory_to_take(const ControlGroupFiles& files = {});

/// Returns the bytes of address space that this process has mapped, including libraries and pages that were
/// never used.
std::optional<Bytes> addresses_in_use();
/// Returns the bytes that the limit on address space (ulimit -v) still allows, or nothing if there is no
/// limit.
std::optional<Bytes> addresses_left();
/// Returns the bytes of address space for the stack of a new thread. Returns 0 if the size is unknown.
Bytes stack_of_a_thread();

/// Returns the bytes that this process can still use: the smaller of memory_to_take() and addresses_left().
/// Returns nothing if neither is known.
std::optional<Bytes> memory_within_reach();

}  // namespace penstock
