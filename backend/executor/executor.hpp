#pragma once
// Executes a lowered program of any schedule. One worker thread for each rank runs the actions of the rank's
// list in order. Messages follow the rules of schedules/check/rendezvous_walk.hpp. The result is a Timeline,
// as the simulator returns it.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "backend/executor/clock.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The stage modules, indexed by rank and then by stage. A module is null if the rank does not hold the
/// stage.
using StageModules = std::vector<std::vector<std::unique_ptr<StageModule>>>;

/// A program and all other arguments of execute(). All referenced objects must live until execute() returns.
struct Execution {
  const Program& program;   ///< valid, lowered program that does not hang under transport.channels()
  const FlatProgram& flat;  ///< `program`, flattened with transport.channels()
  StageModules& modules;
  Transport& transport;
  const Clock& clock;
  /// The longest host time that a compute action may take, and the longest host time without progress of
  /// any worker. If one of them is exceeded, the run fails.
  std::chrono::nanoseconds deadline = std::chrono::minutes(1);
  /// The compute queues, one for each rank. If the list is empty, the threads of the ranks run the compute
  /// actions themselves.
  std::span<ComputeQueue* const> queues{};
};

/// The description of a failed run.
struct ExecutionError {
  std::int32_t rank = 0;  ///< rank that failed, or -1 if no rank is at fault
  std::string action;     ///< action that the rank was at, such as "1F2"
  /// The rank for which the failed rank waited. If it waited for none, `peer` is a rank that waits for the
  /// failed rank or needs its next message. If there is no such rank either, `peer` is -1.
  std::int32_t peer = -1;
  std::string message;  ///< whole error message for the user
};

/// Runs the program once and returns its timeline. If a worker fails or the deadline passes, stops all
/// other workers and returns the first failure. Returns only when all threads have ended, so a module that
/// ignores its stop token delays the return.
tl::expected<Timeline, ExecutionError> execute(const Execution& execution);

// Makes the Timeline of a run from the times that workers and transports recorded.

/// Returns the timeline of a run. Its earliest start is 0. Requires that `times` is complete and was measured
/// by one clock.
Timeline recorded_timeline(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times);

// Finds workers that make no progress, and describes failures. It reads only Progress, so the workers may be
// threads of this process or other processes that report their progress.

/// The progress of one worker. Only that worker writes it, and all threads may read it. The worker writes
/// since_ns first, and a reading thread must read it last. A reader therefore never combines a new action
/// with an old time.
struct Progress {
  /// The position of the action that runs or waits. It is the end of the list if the rank has finished.
  std::atomic<std::int32_t> position = kNone;
  /// The message for which the rank waits, or kNone if it does not wait.
  std::atomic<std::int32_t> waits_for = kNone;
  std::atomic<std::int64_t> since_ns = 0;  ///< host time of the last change of `position` or `waits_for`
};

class Watchdog {
 public:
  /// Prepares the watchdog. `progress` has one element for each rank. `flat` and `progress` must outlive
  /// this object.
  Watchdog(const FlatProgram& flat, std::span<const Progress> progress, std::chrono::nanoseconds deadline)
      : flat_(flat), progress_(progress), deadline_(deadline) {}

  /// Returns a failure if a compute action takes longer than the deadline, or if no rank makes progress for
  /// longer than the deadline. `now_ns` is the present time of the host's steady clock.
  std::optional<ExecutionError> overdue(Ns now_ns) const;
  /// Returns a description of the failure `what` of `rank`. The text names the rank's action and a peer.
  /// The peer is a rank that waits for `rank`. If there is none, it is a rank that needs its next message,
  /// or a rank that sends messages to it.
  ExecutionError failure_of(std::int32_t rank, const std::string& what) const;
  /// Returns true if the rank has reached the end of its list.
  bool is_done(std::int32_t rank) const;

 private:
  std::int32_t to_blame(const std::vector<std::int32_t>& waiting) const;
  /// Returns true if all ranks that must contribute to the message have done so. The message should then
  /// have arrived.
  bool all_have_passed(std::int32_t message) const;
  std::int32_t peer_of(std::int32_t message, std::int32_t rank) const;
  std::int32_t next_of(std::int32_t rank, FlatOp op) const;
  std::int32_t next_or_last_receive_of(std::int32_t rank) const;
  ExecutionError overdue_at(std::int32_t rank) const;
  std::string action_at(std::int32_t position) const;
  std::string standing_text(std::int32_t rank) const;
  /// Returns the name of a message in error texts. It is the RECV of a transfer, such as "1RECV_F0", or the
  /// action of a collective, such as "0REDUCE_GRAD".
  std::string message_name(std::int32_t message) const;
  const Progress& progress_of(std::int32_t rank) const { return progress_[static_cast<std::size_t>(rank)]; }

  const FlatProgram& flat_;
  std::span<const Progress> progress_;
  std::chrono::nanoseconds deadline_;
};

/// The kind of pause between two checks by the supervising thread. If the operating system suspended this
/// thread and the ranks together, no rank is late.
enum class Pause : std::uint8_t {
  as_usual,
  too_long_to_judge,  // longer than the deadline, but possible on a busy machine, so the thread looks again
  suspended,          // longer than the deadline and longer than one second
};
Pause pause_of(std::chrono::nanoseconds took, std::chrono::nanoseconds deadline);
/// Returns the failure of a run that was suspended for `pause`. No rank is at fault.
ExecutionError suspended_for(std::chrono::nanoseconds pause);

/// Returns the time of the host's steady clock, which all processes of the host share.
Ns host_now_ns();

}  // namespace penstock
