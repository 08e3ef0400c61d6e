#pragma once
// Forked ranks: child processes that are watched and always reaped, and the socket pairs between them.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace penstock {

/// The child processes of one run. The destructor kills all children that have not ended, and reaps them.
class ChildProcesses {
 public:
  ChildProcesses() = default;
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;
  ~ChildProcesses();

  /// Forks a child that runs `work` and exits with the status that `work` returns. The kernel kills the
  /// child if the calling thread ends first. If `work` throws, how_ended() includes the text of the
  /// exception.
  tl::expected<void, std::string> start(const std::function<int()>& work);
  /// Returns a text about how the child ended, such as "its process was killed by signal 9 (Killed)".
  /// Returns nothing while it runs. Children are numbered from 0 in the order of their start.
  std::optional<std::string> how_ended(std::int32_t child);
  /// Returns true while the child is suspended, by SIGSTOP, a debugger or Ctrl-Z.
  bool is_suspended(std::int32_t child);
  /// Waits up to 100 ms until the children exit. Then kills the others and reaps all.
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

// Socket pairs between processes that are about to be forked. No other process can reach them. One pair
// connects each rank with the coordinator. One pair connects each two ranks that exchange messages. Only
// process_execution.cpp uses them.

/// The owner of an open file descriptor. The destructor closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  /// Returns the descriptor and gives up its ownership without closing it. The caller must close it.
  int release();

 private:
  int number_ = -1;
};

/// The ends of socket pairs that belong to one rank's process.
struct RankEnds {
  Descriptor coordinator;
  std::map<std::int32_t, Descriptor> peers;  // connections to other ranks, by rank
};

/// The ends of socket pairs that are open in this process. Ranks must be forked in ascending order.
class RankSockets {
 public:
  /// Prepares the socket pairs. `peers` lists the peers of each rank in ascending order, and must outlive
  /// this object.
  explicit RankSockets(const std::vector<std::vector<std::int32_t>>& peers);

  /// Makes the socket pairs that `rank` needs and that do not exist yet. Error: the process has too few
  /// descriptors.
  tl::expected<void, std::string> open_for(std::int32_t rank);
  /// Returns the ends that belong to `rank`, and closes all others. Must be called in the process of this
  /// rank.
  RankEnds take(std::int32_t rank);
  /// Closes the ends that belong to `rank`. Must be called in the parent process after the rank is forked.
  void close_ends_of(std::int32_t rank);
  /// Returns the coordinator's ends of its socket pairs, by rank. Must be called in the parent process.
  std::vector<Descriptor> take_coordinators();

 private:
  const std::vector<std::vector<std::int32_t>>& peers_;
  std::vector<RankEnds> ends_;  // connections of each rank's process
  std::vector<Descriptor> coordinators_;
};

/// An object that raises the limit of open files to the largest allowed value while it exists.
class MostDescriptors {
 public:
  MostDescriptors();
  MostDescriptors(const MostDescriptors&) = delete;
  MostDescriptors& operator=(const MostDescriptors&) = delete;
  ~MostDescriptors();

 private:
  unsigned long before_ = 0;  // earlier limit, or 0 if the limit was not changed
};

}  // namespace penstock
