#pragma once
// Children of this process: forked without exec, watched, and never left behind. Private to
// process_execution.cpp.

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

/// Kills and reaps in its destructor what is left.
class ChildProcesses {
 public:
  ChildProcesses() = default;
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;
  ~ChildProcesses();

  /// Forks a child that runs `work` and ends with its exit status; it is killed when this thread ends first.
  tl::expected<void, std::string> start(const std::function<int()>& work);
  /// "its process was killed by signal 9 (Killed)" when the child, counted from 0 in the order of their
  /// start, has ended; nothing while it runs.
  std::optional<std::string> how_ended(std::int32_t child);
  /// Waits a moment for those that are about to end, kills the others, and reaps all.
  void end_all();

 private:
  struct Child {
    pid_t process = 0;
    std::optional<int> status;  // as of waitpid, once it has been reaped
  };
  bool all_have_ended();

  std::vector<Child> children_;
};

/// Tells children that were forked before it is known which port to connect to.
class PortPipe {
 public:
  PortPipe();
  PortPipe(const PortPipe&) = delete;
  PortPipe& operator=(const PortPipe&) = delete;
  ~PortPipe();

  bool is_open() const { return ends_[0] >= 0; }
  void write(std::uint16_t port, std::int32_t readers);
  /// In a child: waits for the port; nothing when the parent has ended or given up.
  std::optional<std::uint16_t> read();

 private:
  void close_end(std::size_t end);

  std::array<int, 2> ends_{-1, -1};
};

}  // namespace penstock
