// Records the workers of a run. A Hello assigns a rank to its connection. Each rank's program is compared
// with the program of rank 0. The record of a rank says whether it has sent the phase's message, when its
// last message came, and when its last report was made. The last two times differ if a report was delayed.
// Tests: tests/backend/process_run_test.cpp.

#include "backend/process/attendance.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/executor/executor.hpp"
#include "backend/executor/watchdog.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

Attendance::Attendance(std::int32_t rank_count) : peers_(index(rank_count)) {}

void Attendance::await_all() {
  for (Peer& peer : peers_) peer.arrived = false;
}

bool Attendance::is_complete() const {
  return std::ranges::all_of(peers_, [](const Peer& peer) { return peer.arrived; });
}

std::vector<std::int32_t> Attendance::missing() const {
  std::vector<std::int32_t> missing;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (!peers_[rank].arrived) missing.push_back(static_cast<std::int32_t>(rank));
  }
  return missing;
}

std::optional<std::string> Attendance::join(ConnectionId from, const Hello& hello) {
  if (hello.rank < 0 || index(hello.rank) >= peers_.size()) {
    return fmt::format("the program has {} ranks: a process must have a rank from 0 to {}", peers_.size(),
                       peers_.size() - 1);
  }
  Peer& peer = at(hello.rank);
  if (peer.connection) {
    return fmt::format("two processes have this rank: {} and {}", peer.hello.process_id, hello.process_id);
  }
  // The Hello counts as a message and as a report, so that the time of silence starts now.
  const Ns now = host_now_ns();
  peer = {.connection = from, .hello = hello, .heard_ns = now, .reported_ns = now, .arrived = true};
  ranks_[from] = hello.rank;
  return std::nullopt;
}

std::optional<ExecutionError> Attendance::difference() const {
  const Hello& first = peers_.front().hello;
  const auto error_of = [&](const Hello& other, std::string message) {
    return ExecutionError{
        .rank = other.rank, .action = "the start", .peer = first.rank, .message = std::move(message)};
  };
  for (const Peer& peer : peers_) {
    const Hello& other = peer.hello;
    if (other.digest != first.digest) {
      return error_of(other,
                      fmt::format("rank {} has another program than rank {}: digests {} and {}; start all "
                                  "ranks with the same program and flags",
                                  other.rank, first.rank, other.digest, first.digest));
    }
  }
  return std::nullopt;
}

std::optional<std::int32_t> Attendance::rank_of(ConnectionId connection) const {
  const auto known = ranks_.find(connection);
  return known == ranks_.end() ? std::nullopt : std::optional(known->second);
}

std::optional<std::int32_t> Attendance::silent_since(Ns host_ns) const {
  const auto silent = std::ranges::find_if(
      peers_, [&](const Peer& peer) { return peer.connection && peer.heard_ns < host_ns; });
  if (silent == peers_.end()) return std::nullopt;
  return static_cast<std::int32_t>(silent - peers_.begin());
}

bool Attendance::any_heard_since(Ns host_ns) const {
  return std::ranges::any_of(
      peers_, [&](const Peer& peer) { return peer.connection && !peer.gone && peer.heard_ns > host_ns; });
}

Ns Attendance::oldest_report_ns() const {
  return std::ranges::min(peers_, {}, [](const Peer& peer) { return peer.reported_ns; }).reported_ns;
}

}  // namespace penstock
