#pragma once
// What joins one rank with its coordinator and its peers: one thread moves all frames, reports where the rank
// stands and hears the coordinator; another, which runs the rank's list, waits here for its word. Private to
// worker.cpp.

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
#include "backend/executor/progress.hpp"
#include "backend/executor/watchdog.hpp"
#include "backend/process/clock_alignment.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/rank_sockets.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

class WorkerConnections {
 public:
  /// `execution` and `progress`, one a rank of which the rank's own is reported, and `host`, by whose
  /// clock it is, must outlive it.
  WorkerConnections(const ProcessExecution& execution, std::int32_t rank, std::span<const Progress> progress,
                    const HostClock& host);
  WorkerConnections(const WorkerConnections&) = delete;
  WorkerConnections& operator=(const WorkerConnections&) = delete;
  ~WorkerConnections() = default;

  // --- of the thread that runs the rank's list; those that wait throw Stopped when the run has failed ---

  /// The others are at the other ends.
  void adopt(RankEnds ends);
  /// Connects to the coordinator and listens for peers; returns where.
  tl::expected<Endpoint, ExecutionError> reach(const ProcessPlace& place);
  /// Frames move until the thread is asked to stop.
  std::jthread start_moving();

  void say(const ControlMessage& message) { loop_.send(coordinator_, encoded(message)); }
  Welcome welcome();
  Go go();
  /// Nothing when all is done.
  std::optional<Prepare> next_run();
  /// Of each pair the higher rank connects to the lower one. Returns when all have. Throws std::runtime_error
  /// where nobody answers.
  void meet_peers(const Welcome& welcome);
  /// To a peer that has been met.
  void send(std::int32_t peer, Frame frame) { loop_.send(links_.at(peer), std::move(frame)); }
  /// Tells the coordinator what happened here, and lets it judge.
  void give_up(const std::string& what);
  /// Why the run has failed. Requires that it has.
  ExecutionError verdict() const;
  std::stop_token stopped() const { return stop_.get_token(); }

  /// Frames of peers reach a run's transport, and a failure stops it, while this lives.
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
  /// Waits until the coordinator has said it, and takes it: each word is used once. Throws Stopped.
  template <typename Word>
  Word awaited(std::optional<Word>& word);
  ExecutionError error_at_start(const std::string& what) const;
  ExecutionError unreachable(const std::string& why) const;
  ExecutionError without_secret(const std::string& why) const;
  /// The longest frame that a peer's transport has cause to send.
  std::size_t most_data_bytes() const;
  Report report() const;
  void stop(const ExecutionError& error);

  void move_frames(const std::stop_token& stopped);
  void move_frames_until(const std::stop_token& stopped);
  /// Once a report period: tells where the rank stands, and whether the coordinator still lives.
  void tick();
  bool deliver(ConnectionId from, const Frame& frame);
  void received(ConnectionId from, const Frame& frame);
  void greet(ConnectionId from, const Greeting& greeting);
  void closed(ConnectionId connection, Closing why);
  void hear(const Welcome& welcome) { keep(welcome_, welcome); }
  void hear(const Prepare& prepare) { keep(prepare_, prepare); }
  void hear(const Go& go) { keep(go_, go); }
  void hear(const Verdict& verdict) { stop(verdict.error); }
  void hear(const End& end) { keep(end_, end); }
  void hear(const ClockQuestion& question);
  template <typename Other>
  void hear(const Other&) {}
  /// For awaited(), on the other thread.
  template <typename Word>
  void keep(std::optional<Word>& slot, const Word& word);

  const ProcessExecution& execution_;
  ProgramSizes sizes_;
  std::int32_t rank_;
  const Progress& progress_;  // the rank's own
  const HostClock& host_;
  Watchdog watchdog_;
  std::vector<std::int32_t> peers_;
  ConnectionId coordinator_ = 0;
  Endpoint meeting_{};  // where it listens, for launched ranks
  std::stop_source stop_;

  std::atomic<Ns> heard_ns_ = 0;  // host time of the coordinator's last sign of life
  bool has_heard_ = false;        // of the coordinator; of the thread that moves frames
  bool is_forked_ = false;        // by the coordinator

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::int32_t, ConnectionId> links_;  // by peer; complete before the first run, then only read
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
