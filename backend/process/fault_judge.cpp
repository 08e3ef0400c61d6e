// Finds the rank at fault. It first looks for a closed connection, then for a rank that sends no messages.
// Last, it looks for a rank that is late in the present phase: it has not joined, is not ready, or does not
// finish an action. In this order, the cause is found before its consequences: a rank that dies also sends no
// messages, and the ranks that wait for it are late. Tests: tests/backend/fault_judge_test.cpp.

#include "backend/process/fault_judge.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/executor/executor.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/process_run.hpp"
#include "backend/process/socket_loop.hpp"
#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

/// The longest time for which the parent waits until it can read a child's exit status. On a busy machine,
/// a process may take long to end.
constexpr std::chrono::milliseconds kUntilReaped(500);
constexpr std::chrono::seconds kShortestPatience(1);

double in_seconds(nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

std::string rank_list(const std::vector<std::int32_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

/// Returns the text that error messages show in the place of an action before the run has started.
const char* place_in(Phase phase) { return phase == Phase::comparing ? "the clock alignment" : "the start"; }

}  // namespace

FaultJudge::FaultJudge(const ProcessExecution& execution, RankProcesses processes,
                       std::span<const Progress> progress, const Attendance& attendance)
    : execution_(execution),
      processes_(std::move(processes)),
      attendance_(attendance),
      watchdog_(execution.flat, progress, execution.deadline) {}

void FaultJudge::lose(std::int32_t rank) {
  // Only the first closed connection is recorded, because other ranks close their connections as a
  // consequence.
  if (lost_) return;
  lost_ = rank;
  lost_at_ = steady_clock::now();
}

/// Returns the time that a rank may take in this phase. Forked processes start at once, so the phase
/// `joining` may be shorter for them.
nanoseconds FaultJudge::patience_of(Phase phase) const {
  if (phase != Phase::joining) return execution_.patience;
  if (!processes_.how_ended || execution_.patience_to_join) return launched_patience(execution_);
  return std::min<nanoseconds>(execution_.patience,
                               std::max<nanoseconds>(execution_.deadline, kShortestPatience));
}

std::optional<ExecutionError> FaultJudge::judge(const Wait& wait) const {
  switch (pause_of(wait.took, execution_.deadline)) {
    case Pause::as_usual:
      return fault_in(wait);
    case Pause::too_long_to_judge:
      return std::nullopt;
    case Pause::suspended:
      return suspended_for(wait.took);
  }
  return std::nullopt;
}

std::optional<ExecutionError> FaultJudge::fault_in(const Wait& wait) const {
  if (lost_) {
    // First the judge waits until each rank has sent one more report. The error can then name a rank that
    // waits for the lost rank.
    if (steady_clock::now() - lost_at_ <= report_period(execution_) * 3 / 2) return std::nullopt;
    return failure_of(*lost_, end_of(*lost_), wait.phase);
  }
  if (const auto silent = attendance_.silent_since(host_now_ns() - execution_.deadline.count()))
    return failure_of(*silent, silence_of(*silent), wait.phase);
  if (wait.phase == Phase::joining) return missing_in(wait);
  if (wait.phase == Phase::running) return watchdog_.overdue(attendance_.oldest_report_ns());
  const std::vector<std::int32_t> missing = attendance_.missing();
  // If no rank is missing, the last rank has arrived just before this call, so there is no failure.
  if (missing.empty() || steady_clock::now() <= wait.until) return std::nullopt;
  const std::string what = wait.phase == Phase::comparing ? "say what the clock shows there"
                                                          : fmt::format("make ready for run {}", wait.run);
  return failure_of(
      missing.front(),
      fmt::format("waited {:g} s for {} to {}", in_seconds(execution_.patience), rank_list(missing), what),
      wait.phase);
}

std::optional<ExecutionError> FaultJudge::missing_in(const Wait& wait) const {
  const std::vector<std::int32_t> missing = attendance_.missing();
  // A process that has ended will never join, so the failure is reported at once.
  for (const std::int32_t rank : missing) {
    if (const auto how = how_ended(rank)) return failure_of(rank, *how, wait.phase);
  }
  if (missing.empty() || steady_clock::now() <= wait.until) return std::nullopt;
  return waited_for(missing, wait);
}

ExecutionError FaultJudge::waited_for(const std::vector<std::int32_t>& missing, const Wait& wait) const {
  std::string what =
      fmt::format("waited {:g} s for {} to join", in_seconds(patience_of(wait.phase)), rank_list(missing));
  if (std::ranges::any_of(missing, [this](std::int32_t rank) { return is_suspended(rank); }))
    what += ", suspended by a signal";
  ExecutionError error = failure_of(missing.front(), what, wait.phase);
  if (wait.strangers > 0) {
    error.message += fmt::format(
        "; turned away {} without the job's secret: do all ranks have the same user and PENSTOCK_SECRET?",
        format_count(wait.strangers, "connection"));
  }
  return error;
}

ExecutionError FaultJudge::failure_of(std::int32_t rank, const std::string& what, Phase phase) const {
  if (rank < 0 || rank >= execution_.flat.rank_count)
    return {.rank = rank, .action = "the start", .message = fmt::format("rank {}: {}", rank, what)};
  if (phase == Phase::running || phase == Phase::ended) return watchdog_.failure_of(rank, what);
  ExecutionError error{.rank = rank,
                       .action = place_in(phase),
                       .message = fmt::format("rank {}: {}: {}", rank, place_in(phase), what)};
  if (is_alone()) return error;
  error.peer = other_than(rank);
  error.message += fmt::format("; rank {} {}", error.peer,
                               is_there(error.peer) ? "waits for it there" : "is not there, either");
  return error;
}

/// Returns true if the rank is connected. If a launcher started the ranks, rank 0's process runs this
/// coordinator, so rank 0 counts as connected.
bool FaultJudge::is_there(std::int32_t rank) const {
  if (rank == 0 && !processes_.how_ended) return true;
  const Peer& peer = attendance_.peers()[index(rank)];
  return peer.connection && !peer.gone;
}

/// Returns the peer that an error at the start names: the lowest connected rank other than `rank`.
std::int32_t FaultJudge::other_than(std::int32_t rank) const {
  for (std::int32_t other = 0; other < execution_.flat.rank_count; ++other)
    if (other != rank && is_there(other)) return other;
  return rank == 0 ? 1 : 0;
}

std::string FaultJudge::silence_of(std::int32_t rank) const {
  return fmt::format(
      "{} for {:g} s",
      is_suspended(rank) ? "its process is suspended and gave no sign of life" : "gave no sign of life",
      in_seconds(execution_.deadline));
}

/// Returns a text that says how the rank ended. The connection may close before the parent can read the
/// exit status, so the function waits up to 500 ms for the status.
std::string FaultJudge::end_of(std::int32_t rank) const {
  const auto until =
      steady_clock::now() + (processes_.how_ended ? kUntilReaped : std::chrono::milliseconds(0));
  auto how = how_ended(rank);
  while (!how && steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    how = how_ended(rank);
  }
  return how.value_or("its process has closed the connection");
}

std::optional<std::string> FaultJudge::how_ended(std::int32_t rank) const {
  return processes_.how_ended ? processes_.how_ended(rank) : std::nullopt;
}

bool FaultJudge::is_suspended(std::int32_t rank) const {
  return processes_.is_suspended && processes_.is_suspended(rank);
}

bool FaultJudge::is_alone() const { return execution_.flat.rank_count == 1; }

// Records the workers of a run. A Hello assigns a rank to its connection. Each rank's program is compared
// with the program of rank 0. The record of a rank says whether it has sent the message of the phase, when
// its last message came, and when its last report was made. If a report was delayed, the last two times
// differ. Tests: tests/backend/process_run_test.cpp.

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
  // The Hello counts as a message and as a report. The time without a message therefore begins now.
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
