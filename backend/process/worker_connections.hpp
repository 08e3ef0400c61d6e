#pragma once
// The connections of one rank to the coordinator and to its peers. One thread moves all frames, reports the
// rank's progress and receives the coordinator's messages. The other thread runs the rank's list and waits
// here for these messages. Only worker.cpp uses it.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <tl/expected.hpp>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/process/clock_alignment.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/fault_judge.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

class WorkerConnections {
 public:
  /// Prepares the connections. `execution`, `progress` and `host` must outlive this object. `progress` has
  /// one element for each rank. Only the element of `rank` is reported to the coordinator, with times of
  /// the clock `host`.
  WorkerConnections(const ProcessExecution& execution, std::int32_t rank, std::span<const Progress> progress,
                    const HostClock& host);
  WorkerConnections(const WorkerConnections&) = delete;
  WorkerConnections& operator=(const WorkerConnections&) = delete;
  ~WorkerConnections() = default;

  // --- for the thread that runs the rank's list; functions that wait throw Stopped if the run fails ---

  /// Takes the socket-pair ends of this rank, which connect it to the coordinator and the peers.
  void adopt(RankEnds ends);
  /// Connects to the coordinator and starts to listen for peers. Returns the address at which this rank
  /// listens.
  tl::expected<Endpoint, ExecutionError> reach(const ProcessPlace& place);
  /// Starts the thread that sends and receives frames. It runs until a stop is requested.
  std::jthread start_moving();

  void say(const ControlMessage& message) { loop_.send(coordinator_, encoded(message)); }
  Welcome welcome();
  Go go();
  /// Waits for the coordinator's request to prepare a run. Returns nothing if all runs are done.
  std::optional<Prepare> next_run();
  /// Connects to all peers. In each pair, the higher rank connects to the lower one. Returns when all are
  /// connected. Throws std::runtime_error if a peer does not answer.
  void meet_peers(const Welcome& welcome);
  /// Sends a frame to a connected peer.
  void send(std::int32_t peer, Frame frame) { loop_.send(links_.at(peer), std::move(frame)); }
  /// Reports a failure to the coordinator and waits until the coordinator says why the run has failed.
  void give_up(const std::string& what);
  /// Returns the error that says why the run has failed. Requires that the run has failed.
  ExecutionError verdict() const;
  std::stop_token stopped() const { return stop_.get_token(); }

  /// An object that connects the peers to the run's transport during its lifetime: frames from peers are
  /// passed to the transport. During this time, a failure of the run also stops the transport.
  class Attached {
   public:
    Attached(WorkerConnections& connections, RankTransport& transport) : connections_(connections) {
      connections_.attach(&transport);
    }
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;
    ~Attached() { connections_.attach(nullptr); }

   private:
    WorkerConnections& connections_;
  };

 private:
  void attach(RankTransport* transport);
  bool has_met(std::int32_t peer) const;
  /// Waits until the coordinator has sent a message of type `Word`. store() writes this message into `word`.
  /// Returns the message and clears `word`. Throws Stopped.
  template <typename Word>
  Word awaited(std::optional<Word>& word);
  ExecutionError error_at_start(const std::string& what) const;
  ExecutionError unreachable(const std::string& why) const;
  ExecutionError without_secret(const std::string& why) const;
  /// Returns the largest allowed size in bytes of a frame from the transport of a peer.
  std::size_t most_data_bytes() const;
  Report report() const;
  void stop(const ExecutionError& error);

  void move_frames(const std::stop_token& stopped);
  void move_frames_until(const std::stop_token& stopped);
  /// Reports the rank's progress to the coordinator, and checks that the coordinator is alive. It is called
  /// once in each report period.
  void tick();
  bool deliver(ConnectionId from, const Frame& frame);
  void received(ConnectionId from, const Frame& frame);
  void greet(ConnectionId from, const Greeting& greeting);
  void closed(ConnectionId connection, Closing why);
  void hear(const Welcome& welcome) { store(welcome_, welcome); }
  void hear(const Prepare& prepare) { store(prepare_, prepare); }
  void hear(const Go& go) { store(go_, go); }
  void hear(const Verdict& verdict) { stop(verdict.error); }
  void hear(const End& end) { store(end_, end); }
  void hear(const ClockQuestion& question);
  template <typename Other>
  void hear(const Other&) {}
  /// Stores a message of the coordinator in `slot`. The other thread waits for it in awaited().
  template <typename Word>
  void store(std::optional<Word>& slot, const Word& word);

  const ProcessExecution& execution_;
  ProgramSizes sizes_;
  std::int32_t rank_;
  const Progress& progress_;  // progress of this rank
  const HostClock& host_;
  Watchdog watchdog_;
  std::vector<std::int32_t> peers_;
  ConnectionId coordinator_ = 0;
  Endpoint meeting_{};  // address at which the coordinator listens; used only by launched ranks
  std::stop_source stop_;

  std::atomic<Ns> heard_ns_ = 0;  // host time of the coordinator's last message
  // True if the coordinator has sent a message. Only the thread that moves frames uses it.
  bool has_heard_ = false;
  bool is_forked_ = false;  // true if the coordinator's process forked this one

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  // The connection to each peer. The map is complete before the first run and does not change afterwards, so
  // send() reads it without a lock.
  std::map<std::int32_t, ConnectionId> links_;
  std::map<ConnectionId, std::int32_t> peer_of_link_;
  std::optional<Welcome> welcome_;
  std::optional<Prepare> prepare_;
  std::optional<Go> go_;
  std::optional<End> end_;
  std::optional<ExecutionError> verdict_;
  RankTransport* transport_ = nullptr;
  SocketLoop loop_;
};

}  // namespace penstock
