#pragma once
// Finds workers that no longer get on, and puts failures into words. It looks at Progress alone, so that the
// workers may be threads of this process or others that report where they stand.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/executor/progress.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

class Watchdog {
 public:
  /// `progress`: one a rank. Both must outlive it.
  Watchdog(const FlatProgram& flat, std::span<const Progress> progress, std::chrono::nanoseconds deadline)
      : flat_(flat), progress_(progress), deadline_(deadline) {}

  /// A compute action that takes longer than the deadline, or a wait for that long while nobody gets on, as
  /// seen at `now_ns` of the host's steady clock.
  std::optional<ExecutionError> overdue(Ns now_ns) const;
  /// `what` happened on `rank`, where that rank stands, and who waits for it, needs it next, or gives it
  /// its last messages: a rank that exchanges anything always has a peer.
  ExecutionError failure_of(std::int32_t rank, const std::string& what) const;
  /// The rank has come to the end of its list.
  bool is_done(std::int32_t rank) const;

 private:
  std::int32_t to_blame(const std::vector<std::int32_t>& waiting) const;
  /// Nobody has anything left to do for it: it should have arrived, or ended.
  bool everybody_has_passed(std::int32_t message) const;
  std::int32_t peer_of(std::int32_t message, std::int32_t rank) const;
  std::int32_t next_of(std::int32_t rank, FlatOp op) const;
  std::int32_t next_or_last_receive_of(std::int32_t rank) const;
  ExecutionError overdue_at(std::int32_t rank) const;
  std::string action_at(std::int32_t position) const;
  std::string standing_text(std::int32_t rank) const;
  /// By its RECV, which whoever waits for it knows: "1RECV_F0"; of a collective "0REDUCE_GRAD".
  std::string message_name(std::int32_t message) const;
  const Progress& progress_of(std::int32_t rank) const { return progress_[static_cast<std::size_t>(rank)]; }

  const FlatProgram& flat_;
  std::span<const Progress> progress_;
  std::chrono::nanoseconds deadline_;
};

/// What to make of a watcher's pause that took so long: where it was itself suspended, with all that it
/// watches, nobody is late by that.
enum class Pause : std::uint8_t {
  as_usual,
  too_long_to_judge,  // longer than the deadline, but short enough for a busy machine: look again
  suspended,          // longer than that, and than a second
};
Pause pause_of(std::chrono::nanoseconds took, std::chrono::nanoseconds deadline);
/// The failure of a run that was suspended; no rank's.
ExecutionError suspended_for(std::chrono::nanoseconds pause);

/// The host's steady clock, which all processes of a host share.
Ns host_now_ns();

}  // namespace penstock
