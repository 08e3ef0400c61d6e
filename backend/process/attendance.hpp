#pragma once
// Who has come to a run, who is awaited, and when each was last heard of. Private to coordinator.cpp.

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

/// What the coordinator waits for, from every rank.
enum class Phase : std::uint8_t { joining, comparing, preparing, running, ended };

/// One rank's worker.
struct Peer {
  std::optional<ConnectionId> connection;
  Hello hello;
  Ns heard_ns = 0;       ///< host time of the last sign of life
  Ns reported_ns = 0;    ///< host time that its progress is of
  bool arrived = false;  ///< what the phase waits for
  bool gone = false;
};

class Attendance {
 public:
  explicit Attendance(std::int32_t rank_count);

  /// A new phase: nobody has arrived.
  void await_all();
  void arrive(std::int32_t rank) { at(rank).arrived = true; }
  bool is_complete() const;
  std::vector<std::int32_t> missing() const;

  /// Why the process cannot take part; nothing: it is one of the peers, and has arrived.
  std::optional<std::string> join(ConnectionId from, const Hello& hello);
  /// Whether all that have come run the same program.
  std::optional<ExecutionError> difference() const;

  Peer& at(std::int32_t rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const std::vector<Peer>& peers() const { return peers_; }
  std::optional<std::int32_t> rank_of(ConnectionId connection) const;

  /// Of the peers that are there, one that gave no sign of life since.
  std::optional<std::int32_t> silent_since(Ns host_ns) const;
  bool somebody_is_there_since(Ns host_ns) const;
  /// What is reported is judged as of then, so that a worker that has got on since is not late.
  Ns oldest_report_ns() const;

 private:
  std::vector<Peer> peers_;  // by rank
  std::map<ConnectionId, std::int32_t> ranks_;
};

}  // namespace penstock
