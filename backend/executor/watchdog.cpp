// Who no longer gets on, and whose fault it is. A rank that computes is late by its own clock. One that waits
// may do so for long without fault, so waits count only when nobody has got on for the deadline; then the
// blame is on a rank whose message has no reason to be missing (its sender is past it), else on the one that
// has waited longest. The message names the rank, the action and the peer.

#include "backend/executor/watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backend/executor/executor.hpp"
#include "backend/executor/progress.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

double seconds(std::chrono::nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Ns host_now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Pause pause_of(std::chrono::nanoseconds took, std::chrono::nanoseconds deadline) {
  if (took > std::max<std::chrono::nanoseconds>(deadline, std::chrono::seconds(1))) return Pause::suspended;
  return took < deadline ? Pause::as_usual : Pause::too_long_to_judge;
}

ExecutionError suspended_for(std::chrono::nanoseconds pause) {
  return {.rank = -1,
          .action = "the run",
          .message = fmt::format("the run was suspended for {:.3g} s (Ctrl-Z, or another signal), and its "
                                 "times with it: run it again",
                                 seconds(pause))};
}

bool Watchdog::is_done(std::int32_t rank) const {
  return progress_of(rank).position == flat_.rank_begin[index(rank) + 1];
}

std::optional<ExecutionError> Watchdog::overdue(Ns now_ns) const {
  bool nobody_got_on = true;
  std::vector<std::int32_t> waiting;
  for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
    // The time is read last: a rank whose long wait has just ended is then seen to wait, or to compute since
    // now, never to compute since it began to wait.
    const bool computes = progress_of(rank).waits_for == kNone;
    const bool done = is_done(rank);
    const bool late = now_ns - progress_of(rank).since_ns > deadline_.count();
    nobody_got_on &= late;  // one that has just ended got on, too: its last message may still be under way
    if (done) continue;
    if (late && computes) return overdue_at(rank);
    waiting.push_back(rank);
  }
  if (!nobody_got_on || waiting.empty()) return std::nullopt;
  return overdue_at(to_blame(waiting));
}

/// Of the ranks that all wait: one whose message has no reason to be missing, else the one that waits
/// longest.
std::int32_t Watchdog::to_blame(const std::vector<std::int32_t>& waiting) const {
  for (const std::int32_t rank : waiting) {
    const std::int32_t message = progress_of(rank).waits_for;
    if (message != kNone && everybody_has_passed(message)) return rank;
  }
  return *std::ranges::min_element(waiting, {},
                                   [this](std::int32_t rank) { return progress_of(rank).since_ns.load(); });
}

bool Watchdog::everybody_has_passed(std::int32_t message) const {
  const FlatMessage& missing = flat_.messages[index(message)];
  // Transfers leave behind their producer, wherever their SEND stands.
  if (missing.recv != kNone) return progress_of(missing.from_rank).position > missing.producer;
  for (std::int32_t m = missing.first; m != kNone; m = flat_.next_member[index(m)]) {
    if (progress_of(flat_.rank_of(m)).position <= m) return false;
  }
  return true;
}

/// Another rank that has a part in the message; of a collective one that has not reached it, if any.
std::int32_t Watchdog::peer_of(std::int32_t message, std::int32_t rank) const {
  const FlatMessage& waited = flat_.messages[index(message)];
  if (waited.recv != kNone) return waited.from_rank == rank ? waited.to_rank : waited.from_rank;
  std::int32_t peer = -1;
  for (std::int32_t m = waited.first; m != kNone; m = flat_.next_member[index(m)]) {
    const std::int32_t other = flat_.rank_of(m);
    if (other == rank) continue;
    peer = other;
    // One that has not come to it is more to blame than one that waits there as well.
    if (progress_of(other).position <= m) return other;
  }
  return peer;
}

ExecutionError Watchdog::overdue_at(std::int32_t rank) const {
  const double limit = seconds(deadline_);
  const std::int32_t message = progress_of(rank).waits_for;
  if (message == kNone) return failure_of(rank, fmt::format("still running after {:g} s", limit));
  ExecutionError error{
      .rank = rank, .action = standing_text(rank), .peer = peer_of(message, rank), .message = {}};
  error.message =
      fmt::format("rank {}: {}: waited {:g} s for {} from rank {}, which stands at {}", rank, error.action,
                  limit, message_name(message), error.peer, standing_text(error.peer));
  return error;
}

ExecutionError Watchdog::failure_of(std::int32_t rank, const std::string& what) const {
  ExecutionError error{.rank = rank, .action = standing_text(rank), .message = {}};
  error.message = fmt::format("rank {}: {}: {}", rank, error.action, what);
  // Who waits for it right now says most about what the failure means; failing that, who will need it
  // next, and at last who gives it something.
  for (std::int32_t other = 0; other < flat_.rank_count; ++other) {
    const std::int32_t message = progress_of(other).waits_for;
    if (message == kNone || other == rank || peer_of(message, other) != rank) continue;
    error.peer = other;
    error.message += fmt::format("; rank {} waits for it at {}", other, standing_text(other));
    return error;
  }
  if (const std::int32_t given = next_of(rank, FlatOp::send); given != kNone) {
    error.peer = flat_.messages[index(given)].to_rank;
    error.message +=
        fmt::format("; rank {} needs its {}", error.peer, action_at(flat_.messages[index(given)].first));
  } else if (const std::int32_t taken = next_or_last_receive_of(rank); taken != kNone) {
    error.peer = flat_.messages[index(taken)].from_rank;
    error.message += is_done(rank)
                         ? fmt::format("; rank {} gave it {}", error.peer, message_name(taken))
                         : fmt::format("; nobody waits for it, which has given all; rank {} gives it {}",
                                       error.peer, message_name(taken));
  }
  return error;
}

/// The first transfer of the kind that the rank has not come to.
std::int32_t Watchdog::next_of(std::int32_t rank, FlatOp op) const {
  const std::int32_t end = flat_.rank_begin[index(rank) + 1];
  for (std::int32_t p = std::max(progress_of(rank).position.load(), flat_.rank_begin[index(rank)]); p < end;
       ++p) {
    if (flat_.ops[index(p)] == op) return flat_.message[index(p)];
  }
  return kNone;
}

/// Where a rank has given all that others need of it, as the first stage in its last backward passes.
std::int32_t Watchdog::next_or_last_receive_of(std::int32_t rank) const {
  if (const std::int32_t next = next_of(rank, FlatOp::recv); next != kNone) return next;
  for (std::int32_t p = progress_of(rank).position; --p >= flat_.rank_begin[index(rank)];) {
    if (flat_.ops[index(p)] == FlatOp::recv) return flat_.message[index(p)];
  }
  return kNone;
}

std::string Watchdog::action_at(std::int32_t position) const {
  if (position == kNone) return "the start";
  return flat_.ops[index(position)] == FlatOp::barrier ? "the barrier"
                                                       : to_text(flat_.actions[index(position)]);
}

std::string Watchdog::standing_text(std::int32_t rank) const {
  if (rank < 0) return "no action";
  return is_done(rank) ? "the end of its list" : action_at(progress_of(rank).position);
}

std::string Watchdog::message_name(std::int32_t message) const {
  const FlatMessage& waited = flat_.messages[index(message)];
  return action_at(waited.recv == kNone ? waited.first : waited.recv);
}

}  // namespace penstock
