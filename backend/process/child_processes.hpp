#pragma once
// Child processes: forked without exec, watched, and always reaped. Used only by process_execution.cpp.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

/// The children of one run. The destructor kills and reaps those that are left.
class ChildProcesses {
 public:
  ChildProcesses() = default;
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;
  ~ChildProcesses();

  /// Forks a child that runs `work` and exits with its return value. The child is killed if this thread ends
  /// first. how_ended() includes the text of an exception that `work` throws.
  tl::expected<void, std::string> start(const std::function<int()>& work);
  /// Returns, for example, "its process was killed by signal 9 (Killed)" if the child has ended; nothing
  /// while it runs. Children are counted from 0 in the order of their start.
  std::optional<std::string> how_ended(std::int32_t child);
  /// Returns whether the child was suspended (SIGSTOP, a debugger, Ctrl-Z) and has not been continued.
  bool is_suspended(std::int32_t child);
  /// Waits a moment for children that are about to end, kills the others, and reaps all.
  void end_all();

 private:
  struct LastWords;
  struct Forget {
    void operator()(LastWords* words) const;
  };
  struct Child {
    pid_t process = 0;
    std::unique_ptr<LastWords, Forget> words{};
    std::optional<int> status{};  // the status of waitpid; absent until the child is reaped
    bool suspended = false;
  };
  void look_at(Child& child);
  bool all_have_ended();

  std::vector<Child> children_;
};

}  // namespace penstock
