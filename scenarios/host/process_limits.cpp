// Computes how much memory this process can still use. Two kinds of limits apply, and each has a current use:
//
//   the machine          MemAvailable                  /proc/meminfo
//   each control group   memory.max (version 1:        memory.current (memory.usage_in_bytes), minus the
//                        memory.limit_in_bytes)        cache of files that memory.stat counts
//
// The address space has one limit, setrlimit(RLIMIT_AS), and /proc/self/statm states its use. Tests:
// tests/scenarios/host_test.cpp.

#include "scenarios/host/process_limits.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

namespace {

namespace fs = std::filesystem;

/// Returns the bytes of files that the kernel caches for a control group. The kernel counts these bytes as
/// used, but frees them when memory is short.
Bytes cached_bytes(const fs::path& statistics, std::string_view prefix) {
  std::ifstream stream(statistics);
  Bytes cached = 0;
  Bytes bytes = 0;
  for (std::string key; stream >> key >> bytes;) {
    if (!key.starts_with(prefix)) continue;
    const std::string_view kind = std::string_view(key).substr(prefix.size());
    if (kind == "inactive_file" || kind == "active_file") cached += bytes;
  }
  return cached;
}

/// The names of the files that state a control group's memory in one version of control groups.
struct MemoryFiles {
  const char* bound;
  const char* taken;
  /// The prefix of those counters in memory.stat that include subgroups: "total_" in version 1, and none in
  /// version 2.
  std::string_view prefix;
};

MemoryFiles memory_files(ControlGroupVersion version) {
  switch (version) {
    case ControlGroupVersion::first:
      return {.bound = "memory.limit_in_bytes", .taken = "memory.usage_in_bytes", .prefix = "total_"};
    case ControlGroupVersion::second:
      return {.bound = "memory.max", .taken = "memory.current", .prefix = ""};
  }
  return {};
}

/// Returns the bytes that the processes of a group can still use, or nothing if the group has no limit.
std::optional<Bytes> memory_left(const ControlGroup& group) {
  const MemoryFiles files = memory_files(group.version);
  const auto bound = number_in(group.folder / files.bound);
  const auto taken = number_in(group.folder / files.taken);
  if (!bound || !taken) return std::nullopt;
  const Bytes held = std::max<Bytes>(0, *taken - cached_bytes(group.folder / "memory.stat", files.prefix));
  return std::max<Bytes>(0, *bound - held);
}

/// Returns the smaller of two numbers. If only one number is present, returns it. Returns nothing if both
/// are absent.
std::optional<Bytes> less_of(std::optional<Bytes> one, std::optional<Bytes> other) {
  if (!one || !other) return one ? one : other;
  return std::min(*one, *other);
}

}  // namespace

std::optional<Bytes> available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  Bytes kibibytes = 0;
  for (std::string rest; meminfo >> key >> kibibytes && std::getline(meminfo, rest);) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return std::nullopt;
}

std::optional<Bytes> memory_of_control_groups(const ControlGroupFiles& files) {
  std::optional<Bytes> left;
  for (const ControlGroup& group : control_groups("memory", files)) left = less_of(left, memory_left(group));
  return left;
}

std::optional<Bytes> memory_to_take(const ControlGroupFiles& files) {
  const auto left = less_of(available_memory(), memory_of_control_groups(files));
  return left ? std::optional(*left / 4 * 3) : std::nullopt;
}

std::optional<Bytes> addresses_in_use() {
  std::ifstream statm("/proc/self/statm");
  Bytes pages = 0;
  // The page size is 4 KiB on x86-64, and up to 64 KiB on Grace Hopper.
  const Bytes page = sysconf(_SC_PAGESIZE);
  return statm >> pages ? std::optional(pages * page) : std::nullopt;
}

std::optional<Bytes> addresses_left() {
  rlimit bound{};
  const auto used = addresses_in_use();
  if (!used || getrlimit(RLIMIT_AS, &bound) != 0 || bound.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return std::max<Bytes>(0, static_cast<Bytes>(bound.rlim_cur) - *used);
}

Bytes stack_of_a_thread() {
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) != 0) return 0;
  std::size_t bytes = 0;
  const bool is_known = pthread_attr_getstacksize(&attributes, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  return is_known ? static_cast<Bytes>(bytes) : 0;
}

std::optional<Bytes> memory_within_reach() { return less_of(memory_to_take(), addresses_left()); }

namespace {

namespace fs = std::filesystem;

void append_upwards(std::vector<ControlGroup>& groups, const fs::path& mount, std::string_view group,
                    ControlGroupVersion version) {
  for (fs::path path = fs::path(group).relative_path();; path = path.parent_path()) {
    groups.push_back({.folder = mount / path, .version = version});
    if (path.empty()) return;
  }
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const ControlGroupFiles& files) {
  std::vector<ControlGroup> groups;
  std::ifstream lines(files.list);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id;
    std::string controllers;
    std::string group;
    if (!std::getline(fields, id, ':') || !std::getline(fields, controllers, ':') ||
        !std::getline(fields, group)) {
      continue;
    }
    if (controllers.empty()) append_upwards(groups, files.mount, group, ControlGroupVersion::second);
    if (controllers == controller)
      append_upwards(groups, files.mount / controller, group, ControlGroupVersion::first);
  }
  return groups;
}

std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::int64_t number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

}  // namespace penstock
