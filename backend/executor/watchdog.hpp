#pragma once
// Finds workers that make no progress, and describes failures. It reads only Progress, so the workers may be
// threads of this process or other processes that report their progress.

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
  /// `progress` has one element for each rank. Both arguments must outlive this object.
  Watchdog(const FlatProgram& flat, std::span<const Progress> progress, std::chrono::nanoseconds deadline)
      : flat_(flat), progress_(progress), deadline_(deadline) {}

  /// Returns a failure if a compute action takes longer than the deadline, or if no rank makes progress for
  /// so long. `now_ns` is a time of the host's steady clock.
  std::optional<ExecutionError> overdue(Ns now_ns) const;
  /// Describes that `what` happened on `rank`: the rank's action, and the peer that waits for it, needs it
  /// next, or sent it its last messages. A rank that exchanges messages always has a peer.
  ExecutionError failure_of(std::int32_t rank, const std::string& what) const;
  /// Returns whether the rank has reached the end of its list.
  bool is_done(std::int32_t rank) const;

 private:
  std::int32_t to_blame(const std::vector<std::int32_t>& waiting) const;
  /// Returns whether all ranks that take part have passed their part of the message, so that it should have
  /// arrived or ended.
  bool all_have_passed(std::int32_t message) const;
  std::int32_t peer_of(std::int32_t message, std::int32_t rank) const;
  std::int32_t next_of(std::int32_t rank, FlatOp op) const;
  std::int32_t next_or_last_receive_of(std::int32_t rank) const;
  ExecutionError overdue_at(std::int32_t rank) const;
  std::string action_at(std::int32_t position) const;
  std::string standing_text(std::int32_t rank) const;
  /// Returns the name of a message. A transfer is named by its RECV, which a waiting rank knows: "1RECV_F0";
  /// a collective by its action: "0REDUCE_GRAD".
  std::string message_name(std::int32_t message) const;
  const Progress& progress_of(std::int32_t rank) const { return progress_[static_cast<std::size_t>(rank)]; }

  const FlatProgram& flat_;
  std::span<const Progress> progress_;
  std::chrono::nanoseconds deadline_;
};

/// How a watcher treats a pause of its own. A watcher that was suspended together with the ranks must not
/// call them late.
enum class Pause : std::uint8_t {
  as_usual,
  too_long_to_judge,  // longer than the deadline, but possible on a busy machine: look again
  suspended,          // longer than that, and than a second
};
Pause pause_of(std::chrono::nanoseconds took, std::chrono::nanoseconds deadline);
/// Returns the failure of a run that was suspended. It blames no rank.
ExecutionError suspended_for(std::chrono::nanoseconds pause);

/// Returns the host's steady clock, which all processes of a host share.
Ns host_now_ns();

}  // namespace penstock
