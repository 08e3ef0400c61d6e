#pragma once
// Children of this process: forked without exec, watched, and never left behind. Private to
// process_execution.cpp.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
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
  /// What `work` throws is a part of how it ended.
  tl::expected<void, std::string> start(const std::function<int()>& work);
  /// "its process was killed by signal 9 (Killed)" when the child, counted from 0 in the order of their
  /// start, has ended; nothing while it runs.
  std::optional<std::string> how_ended(std::int32_t child);
  /// Somebody has suspended the child (SIGSTOP, a debugger, Ctrl-Z), and nobody has let it go on.
  bool is_suspended(std::int32_t child);
  /// Waits a moment for those that are about to end, kills the others, and reaps all.
  void end_all();

 private:
  struct LastWords;
  struct Forget {
    void operator()(LastWords* words) const;
  };
  struct Child {
    pid_t process = 0;
    std::unique_ptr<LastWords, Forget> words{};
    std::optional<int> status{};  // as of waitpid, once it has been reaped
    bool suspended = false;
  };
  void look_at(Child& child);
  bool all_have_ended();

  std::vector<Child> children_;
};

}  // namespace penstock
