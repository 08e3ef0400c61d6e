#pragma once
// Finds which rank is at fault when a run makes no progress: one that has ended, fallen silent, not joined,
// or is stuck. Used only by coordinator.cpp.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/executor/progress.hpp"
#include "backend/executor/watchdog.hpp"
#include "backend/process/attendance.hpp"
#include "backend/process/process_execution.hpp"

namespace penstock {

/// Functions by which the parent process asks about the ranks' processes. Both functions are empty if a
/// launcher started them.
struct RankProcesses {
  /// Returns how a rank's process ended, or nothing while it runs.
  std::function<std::optional<std::string>(std::int32_t rank)> how_ended{};
  /// Returns whether the process exists and has been suspended.
  std::function<bool(std::int32_t rank)> is_suspended{};
};

class FaultJudge {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Keeps references to `execution`, `progress` (one element for each rank) and `attendance`, which must
  /// outlive this object.
  FaultJudge(const ProcessExecution& execution, RankProcesses processes, std::span<const Progress> progress,
             const Attendance& attendance);

  /// The state of the coordinator's wait.
  struct Wait {
    Phase phase = Phase::joining;
    std::int32_t run = 0;
    TimePoint until;                ///< end of the patience that patience_of() gave the phase
    std::chrono::nanoseconds took;  ///< time since the last call of judge()
    std::int64_t strangers = 0;     ///< number of connections that were refused
  };
  std::optional<ExecutionError> judge(const Wait& wait) const;

  /// Describes that `what` happened on `rank`, which may be a rank that the program does not have.
  ExecutionError failure_of(std::int32_t rank, const std::string& what, Phase phase) const;
  /// Records that the rank's connection has closed. Only the first one is at fault.
  void lose(std::int32_t rank);
  /// Returns how long a phase other than a run may take.
  std::chrono::nanoseconds patience_of(Phase phase) const;

 private:
  std::optional<ExecutionError> fault_in(const Wait& wait) const;
  /// Returns the fault in the phase in which all ranks join.
  std::optional<ExecutionError> missing_in(const Wait& wait) const;
  ExecutionError waited_for(const std::vector<std::int32_t>& missing, const Wait& wait) const;
  bool is_there(std::int32_t rank) const;
  std::int32_t other_than(std::int32_t rank) const;
  std::string silence_of(std::int32_t rank) const;
  std::string end_of(std::int32_t rank) const;
  std::optional<std::string> how_ended(std::int32_t rank) const;
  bool is_suspended(std::int32_t rank) const;
  bool is_alone() const;

  const ProcessExecution& execution_;
  RankProcesses processes_;
  const Attendance& attendance_;
  Watchdog watchdog_;
  std::optional<std::int32_t> lost_;  // the first rank whose connection has closed
  TimePoint lost_at_;
};

}  // namespace penstock
