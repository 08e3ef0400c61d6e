#pragma once
// Says whose fault it is that a run does not get on: a rank that has ended, fallen silent, not come, or
// stands still. Private to coordinator.cpp.

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

/// What the parent of the ranks' processes knows of them. Both are empty where somebody else is their parent.
struct RankProcesses {
  /// How a rank's process ended; nothing while it runs.
  std::function<std::optional<std::string>(std::int32_t rank)> how_ended{};
  /// It lives, and has been suspended.
  std::function<bool(std::int32_t rank)> is_suspended{};
};

class FaultJudge {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// `execution`, `progress` (one a rank) and `attendance` must outlive it.
  FaultJudge(const ProcessExecution& execution, RankProcesses processes, std::span<const Progress> progress,
             const Attendance& attendance);

  /// What the coordinator has just waited for.
  struct Wait {
    Phase phase = Phase::joining;
    std::int32_t run = 0;
    TimePoint until;                ///< as patience_of() the phase gave it
    std::chrono::nanoseconds took;  ///< since it was last judged
    std::int64_t strangers = 0;     ///< that have been turned away
  };
  std::optional<ExecutionError> judge(const Wait& wait) const;

  /// `what` happened on `rank`, which may be none of the program's.
  ExecutionError failure_of(std::int32_t rank, const std::string& what, Phase phase) const;
  /// Its connection has closed. Only the first is at fault.
  void lose(std::int32_t rank);
  /// How long a phase other than a run may take.
  std::chrono::nanoseconds patience_of(Phase phase) const;

 private:
  std::optional<ExecutionError> fault_in(const Wait& wait) const;
  /// In the phase in which all join.
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
  std::optional<std::int32_t> lost_;  // the first whose connection has closed
  TimePoint lost_at_;
};

}  // namespace penstock
