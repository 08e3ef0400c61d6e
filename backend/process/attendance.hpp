#pragma once
// Records which workers have joined a run, which are missing, and when each last sent a message. Only
// coordinator.cpp and fault_judge.cpp use it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/check/flat_program.hpp"

namespace penstock {

/// The phases of a run. In each phase except the last, the coordinator waits for one message from every rank.
enum class Phase : std::uint8_t { joining, comparing, preparing, running, ended };

/// The coordinator's record of one rank's worker.
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

  /// Begins a new phase, in which no rank has arrived.
  void await_all();
  void arrive(std::int32_t rank) { at(rank).arrived = true; }
  bool is_complete() const;
  std::vector<std::int32_t> missing() const;

  /// Registers a process that has sent `hello` as the worker of its rank. Returns nothing on success, and
  /// otherwise why it cannot take part.
  std::optional<std::string> join(ConnectionId from, const Hello& hello);
  /// Returns an error if not all ranks run the same program.
  std::optional<ExecutionError> difference() const;

  Peer& at(std::int32_t rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const std::vector<Peer>& peers() const { return peers_; }
  std::optional<std::int32_t> rank_of(ConnectionId connection) const;

  /// Returns a connected rank that has sent no message since `host_ns`, or nothing.
  std::optional<std::int32_t> silent_since(Ns host_ns) const;
  bool any_heard_since(Ns host_ns) const;
  /// Returns the time of the oldest among the ranks' last reports. Actions count as late only by this time,
  /// because a worker may have made progress since its report.
  Ns oldest_report_ns() const;

 private:
  std::vector<Peer> peers_;  // record of each rank's worker
  std::map<ConnectionId, std::int32_t> ranks_;
};

}  // namespace penstock
