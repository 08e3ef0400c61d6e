// Finds ranks that make no progress, and finds which rank is at fault. A rank that computes is late if its
// action takes longer than the deadline. A rank that waits is late only if no rank has made progress for the
// whole deadline. In this case the error names a waiting rank for which the message has already been sent. If
// there is none, it names the rank that has waited longest. Tests: tests/backend/fault_judge_test.cpp.

#include "backend/executor/executor.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

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
  bool all_are_late = true;
  std::vector<std::int32_t> waiting;
  for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
    // The start time of the state is read last. Otherwise a rank that has just ended a long wait could look
    // as if it had computed during the whole wait.
    const bool computes = progress_of(rank).waits_for == kNone;
    const bool done = is_done(rank);
    const bool late = now_ns - progress_of(rank).since_ns > deadline_.count();
    // A rank that has just finished its list has also made progress, because its last message may still be on
    // the way. It therefore counts in `all_are_late`.
    all_are_late &= late;
    if (done) continue;
    if (late && computes) return overdue_at(rank);
    waiting.push_back(rank);
  }
  if (!all_are_late || waiting.empty()) return std::nullopt;
  return overdue_at(to_blame(waiting));
}

/// Returns the rank that the error names. It is a rank in `waiting` whose message should have arrived. If
/// there is none, it is the rank that has waited longest.
std::int32_t Watchdog::to_blame(const std::vector<std::int32_t>& waiting) const {
  for (const std::int32_t rank : waiting) {
    const std::int32_t message = progress_of(rank).waits_for;
    if (message != kNone && all_have_passed(message)) return rank;
  }
  return *std::ranges::min_element(waiting, {},
                                   [this](std::int32_t rank) { return progress_of(rank).since_ns.load(); });
}

bool Watchdog::all_have_passed(std::int32_t message) const {
  const FlatMessage& missing = flat_.messages[index(message)];
  // A transfer starts directly after the action that produced its data, wherever its SEND is in the list.
  if (missing.recv != kNone) return progress_of(missing.from_rank).position > missing.producer;
  for (std::int32_t m = missing.first; m != kNone; m = flat_.next_member[index(m)]) {
    if (progress_of(flat_.rank_of(m)).position <= m) return false;
  }
  return true;
}

/// Returns a rank other than `rank` that takes part in the message. For a collective, prefers a rank that has
/// not reached it.
std::int32_t Watchdog::peer_of(std::int32_t message, std::int32_t rank) const {
  const FlatMessage& waited = flat_.messages[index(message)];
  if (waited.recv != kNone) return waited.from_rank == rank ? waited.to_rank : waited.from_rank;
  std::int32_t peer = -1;
  for (std::int32_t m = waited.first; m != kNone; m = flat_.next_member[index(m)]) {
    const std::int32_t other = flat_.rank_of(m);
    if (other == rank) continue;
    peer = other;
    // A rank that has not reached the collective is more likely at fault than a rank that waits there.
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
  // The peer is a rank that waits for this rank now. If there is none, the peer is the receiver of this
  // rank's next message. If this rank sends no more messages, the peer is a rank that sends messages to it.
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
    error.message +=
        is_done(rank)
            ? fmt::format("; rank {} sent it {}", error.peer, message_name(taken))
            : fmt::format("; no rank waits for it, and it has sent all its messages; rank {} sends it {}",
                          error.peer, message_name(taken));
  }
  return error;
}

/// Returns the message of the first SEND or RECV that the rank has not reached. `op` selects SEND or RECV.
/// Returns kNone if there is none.
std::int32_t Watchdog::next_of(std::int32_t rank, FlatOp op) const {
  const std::int32_t end = flat_.rank_begin[index(rank) + 1];
  for (std::int32_t p = std::max(progress_of(rank).position.load(), flat_.rank_begin[index(rank)]); p < end;
       ++p) {
    if (flat_.ops[index(p)] == op) return flat_.message[index(p)];
  }
  return kNone;
}

/// Returns the message of the rank's next RECV. If the rank has no further RECV, returns the message of its
/// last one.
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
