// Finds how many tasks may still be started. Each of four limits is compared with the number of tasks that it
// counts:
//
//     setrlimit(RLIMIT_NPROC)       tasks of the real user     /proc/N, the links of its folder of tasks
//     pids.max of a control group   pids.current beside it     this process's group and all above it
//     kernel.threads-max, pid_max   all tasks                  /proc/loadavg, after the slash
//
// Tests: tests/backend/process_run_test.cpp.

#include "backend/executor/task_room.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "scenarios/host/process_limits.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// Replaces `room` by the limit `bound` if this limit allows fewer tasks. `left` is the number of tasks that
/// the limit still allows. If the limit is already exceeded, it allows 0 further tasks.
void narrow(std::optional<TaskRoom>& room, std::int64_t left, std::string_view bound) {
  left = std::max<std::int64_t>(0, left);
  if (!room || left < room->left) room = TaskRoom{.left = left, .bound = bound};
}

/// Returns the number of threads of a process. Returns 0 if the process has ended or is hidden (hidepid). The
/// folder /proc/N/task has one subfolder for each thread. The folder's link count is the number of threads
/// plus 2, so one call of stat replaces a listing.
std::int64_t threads_of_process(const fs::path& process) {
  struct stat folder{};
  if (::stat((process / "task").c_str(), &folder) != 0) return 0;
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(folder.st_nlink) - 2);
}

std::int64_t tasks_of_this_user() {
  std::int64_t tasks = 0;
  std::error_code gone;  // error that is ignored, because processes may end while the loop runs
  for (fs::directory_iterator next("/proc", gone), end; !gone && next != end; next.increment(gone)) {
    if (std::isdigit(static_cast<unsigned char>(next->path().filename().string().front())) == 0) continue;
    struct stat process{};
    const bool is_own = ::stat(next->path().c_str(), &process) == 0 && process.st_uid == ::getuid();
    if (is_own) tasks += threads_of_process(next->path());
  }
  return tasks;
}

void narrow_by_user(std::optional<TaskRoom>& room) {
  rlimit bound{};
  const bool is_bound = ::geteuid() != 0 && getrlimit(RLIMIT_NPROC, &bound) == 0;
  if (!is_bound || bound.rlim_cur == RLIM_INFINITY) return;
  narrow(room, static_cast<std::int64_t>(bound.rlim_cur) - tasks_of_this_user(), "ulimit -u");
}

void narrow_by_groups(std::optional<TaskRoom>& room) {
  for (const ControlGroup& group : control_groups("pids")) {
    const auto most = number_in(group.folder / "pids.max");
    const auto taken = number_in(group.folder / "pids.current");
    if (most && taken) narrow(room, *most - *taken, "pids.max of its control group");
  }
}

/// Applies the limits of the whole system to `room`. /proc/loadavg reads "0.20 0.18 0.12 1/423 11206":
/// three averages, running tasks, a slash, all tasks.
void narrow_by_system(std::optional<TaskRoom>& room) {
  std::ifstream load("/proc/loadavg");
  std::array<double, 3> averages{};
  std::int64_t running = 0;
  char slash = 0;
  std::int64_t tasks = 0;
  for (double& average : averages) load >> average;
  if (!(load >> running >> slash >> tasks)) return;
  const fs::path settings = "/proc/sys/kernel";
  if (const auto most = number_in(settings / "threads-max"))
    narrow(room, *most - tasks, "kernel.threads-max");
  if (const auto most = number_in(settings / "pid_max")) narrow(room, *most - tasks, "kernel.pid_max");
}

}  // namespace

std::optional<TaskRoom> task_room() {
  std::optional<TaskRoom> room;
  narrow_by_user(room);
  narrow_by_groups(room);
  narrow_by_system(room);
  return room;
}

}  // namespace penstock
