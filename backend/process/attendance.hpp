#pragma once
// Records which workers have joined a run, which are missing, and when each was last heard. Used only by
// coordinator.cpp and fault_judge.cpp.

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

/// The phases of a run. In each the coordinator waits for one message from every rank.
enum class Phase : std::uint8_t { joining, comparing, preparing, running, ended };

/// The worker of one rank.
struct Peer {
  std::optional<ConnectionId> connection;
  Hello hello;
  Ns heard_ns = 0;       ///< host time of the last sign of life
  Ns reported_ns = 0;    ///< host time to which its last reported progress belongs
  bool arrived = false;  ///< it has sent what the phase waits for
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

  /// Registers the process as a peer that has arrived. Returns nothing, or why it cannot take part.
  std::optional<std::string> join(ConnectionId from, const Hello& hello);
  /// Returns an error if the ranks that have joined run different programs.
  std::optional<ExecutionError> difference() const;

  Peer& at(std::int32_t rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const std::vector<Peer>& peers() const { return peers_; }
  std::optional<std::int32_t> rank_of(ConnectionId connection) const;

  /// Returns a connected peer that has given no sign of life since then, or nothing.
  std::optional<std::int32_t> silent_since(Ns host_ns) const;
  bool any_heard_since(Ns host_ns) const;
  /// Returns the oldest time of the ranks' reports. Late actions are judged as of this time, so that a worker
  /// that has made progress since its report is not called late.
  Ns oldest_report_ns() const;

 private:
  std::vector<Peer> peers_;  // by rank
  std::map<ConnectionId, std::int32_t> ranks_;
};

}  // namespace penstock
