#pragma once
// Finds which rank is at fault when a run makes no progress. This rank has ended, sends no messages, has
// not joined, or is stuck. Attendance records which workers have joined, which are missing, and when each
// worker has sent its last message. Only coordinator.cpp uses both.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>
#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/check/flat_program.hpp"

namespace penstock {

/// The phases of a run. In each phase except the last, the coordinator waits for one message from every rank.
enum class Phase : std::uint8_t { joining, comparing, preparing, running, ended };

/// The coordinator's record of one rank's worker: its connection, and the times of its last messages.
struct Peer {
  std::optional<ConnectionId> connection;
  Hello hello;
  Ns heard_ns = 0;       ///< host time of the last message from the worker
  Ns reported_ns = 0;    ///< host time for which the worker's last progress report was made
  bool arrived = false;  ///< true if the worker has sent the message of the present phase
  bool gone = false;
};

class Attendance {
 public:
  explicit Attendance(std::int32_t rank_count);

  /// Begins a new phase. No rank has sent the message of this phase yet.
  void await_all();
  void arrive(std::int32_t rank) { at(rank).arrived = true; }
  bool is_complete() const;
  std::vector<std::int32_t> missing() const;

  /// Registers a process that has sent `hello` as the worker of its rank. Returns nothing on success.
  /// Otherwise returns why the process cannot take part.
  std::optional<std::string> join(ConnectionId from, const Hello& hello);
  /// Returns an error if two ranks run different programs, and nothing otherwise.
  std::optional<ExecutionError> difference() const;

  Peer& at(std::int32_t rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const std::vector<Peer>& peers() const { return peers_; }
  std::optional<std::int32_t> rank_of(ConnectionId connection) const;

  /// Returns a connected rank that has sent no message since the host time `host_ns`. Returns nothing if
  /// there is none.
  std::optional<std::int32_t> silent_since(Ns host_ns) const;
  bool any_heard_since(Ns host_ns) const;
  /// Returns the host time of the oldest of the last reports of all ranks. A worker may have made progress
  /// after its report. Lateness is therefore judged at the time of the report, not at the present time.
  Ns oldest_report_ns() const;

 private:
  std::vector<Peer> peers_;  // record of each rank's worker
  std::map<ConnectionId, std::int32_t> ranks_;
};

/// Functions that return the state of the ranks' processes. The process that has forked the ranks sets
/// them. Both are empty if a launcher started the ranks.
struct RankProcesses {
  /// Returns a text about how the rank's process ended, or nothing while it runs.
  std::function<std::optional<std::string>(std::int32_t rank)> how_ended{};
  /// Returns true if the rank's process exists and is suspended.
  std::function<bool(std::int32_t rank)> is_suspended{};
};

class FaultJudge {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Prepares the judge. `execution`, `progress` and `attendance` must outlive this object. `progress` has
  /// one element for each rank.
  FaultJudge(const ProcessExecution& execution, RankProcesses processes, std::span<const Progress> progress,
             const Attendance& attendance);

  /// The state of the coordinator while it waits for messages of a phase.
  struct Wait {
    Phase phase = Phase::joining;
    std::int32_t run = 0;
    TimePoint until;                ///< time by which all ranks must have sent the message of the phase
    std::chrono::nanoseconds took;  ///< time since the last call of judge()
    std::int64_t strangers = 0;     ///< number of connections refused because they proved no secret
  };
  std::optional<ExecutionError> judge(const Wait& wait) const;

  /// Returns a description of the failure `what` of `rank`. `rank` may be a number that the program does
  /// not have.
  ExecutionError failure_of(std::int32_t rank, const std::string& what, Phase phase) const;
  /// Records that the rank's connection has closed. Only the first call has an effect, because the loss of
  /// one rank makes other connections close.
  void lose(std::int32_t rank);
  /// Returns the longest time that a phase may take. The result has no meaning for Phase::running.
  std::chrono::nanoseconds patience_of(Phase phase) const;

 private:
  std::optional<ExecutionError> fault_in(const Wait& wait) const;
  /// Returns the failure if a rank is missing in the phase `joining`, or nothing if there is none.
  std::optional<ExecutionError> missing_in(const Wait& wait) const;
  ExecutionError waited_for(const std::vector<std::int32_t>& missing, const Wait& wait) const;
  bool is_there(std::int32_t rank) const;
  std::int32_t other_than(std::int32_t rank) const;
  std::string silence_of(std::int32_t rank) const;
  std::string end_of(std::int32_t rank) const;
  std::optional<std::string> how_ended(std::int32_t rank) const;
  bool is_suspended(std::int32_t rank) const;
  bool is_alone() const;

  const ProcessExecution& execution_;
  RankProcesses processes_;
  const Attendance& attendance_;
  Watchdog watchdog_;
  std::optional<std::int32_t> lost_;  // first rank that closed its connection
  TimePoint lost_at_;
};

// Forked ranks: child processes that are watched and always reaped, and the socket pairs between them.

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

  /// Makes the socket pairs that `rank` needs and that do not exist yet. Fails if the process has too few
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
