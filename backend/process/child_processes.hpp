#pragma once
// Forks child processes without exec, watches them, and always reaps them. Only process_execution.cpp uses
// it.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

/// The child processes of one run. The destructor kills and reaps all children that have not ended.
class ChildProcesses {
 public:
  ChildProcesses() = default;
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;
  ~ChildProcesses();

  /// Forks a child that runs `work` and exits with the returned status. The kernel kills the child if the
  /// calling thread ends first. If `work` throws, how_ended() includes the exception's text.
  tl::expected<void, std::string> start(const std::function<int()>& work);
  /// Returns how the child ended, such as "its process was killed by signal 9 (Killed)", or nothing while it
  /// runs. Children are numbered from 0 in the order of their start.
  std::optional<std::string> how_ended(std::int32_t child);
  /// Returns true while the child is suspended, by SIGSTOP, a debugger or Ctrl-Z.
  bool is_suspended(std::int32_t child);
  /// Waits 100 ms for children to exit, kills the others, and reaps all.
  void end_all();

 private:
  struct LastWords;
  struct Forget {
    void operator()(LastWords* words) const;
  };
  struct Child {
    pid_t process = 0;
    std::unique_ptr<LastWords, Forget> words{};
    std::optional<int> status{};  // status that waitpid returned; absent until the child is reaped
    bool suspended = false;
  };
  void look_at(Child& child);
  bool all_have_ended();

  std::vector<Child> children_;
};

}  // namespace penstock
