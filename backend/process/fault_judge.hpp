#pragma once
// Finds which rank is at fault if a run makes no progress. The rank has ended, sends no messages, has not
// joined, or does not finish an action. Only coordinator.cpp uses it.

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

/// Functions that return the state of the ranks' processes, for a process that has forked them. Both
/// functions are empty if a launcher started the ranks.
struct RankProcesses {
  /// Returns how the rank's process ended, or nothing while it runs.
  std::function<std::optional<std::string>(std::int32_t rank)> how_ended{};
  /// Returns true if the rank's process exists and is suspended.
  std::function<bool(std::int32_t rank)> is_suspended{};
};

class FaultJudge {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Stores references to `execution`, `progress` and `attendance`, which must outlive this object.
  /// `progress` has one element for each rank.
  FaultJudge(const ProcessExecution& execution, RankProcesses processes, std::span<const Progress> progress,
             const Attendance& attendance);

  /// The state of the coordinator while it waits for messages of a phase.
  struct Wait {
    Phase phase = Phase::joining;
    std::int32_t run = 0;
    TimePoint until;                ///< time by which all ranks must have sent the message of the phase
    std::chrono::nanoseconds took;  ///< time since the last call of judge()
    std::int64_t strangers = 0;     ///< number of connections refused because they proved no secret
  };
  std::optional<ExecutionError> judge(const Wait& wait) const;

  /// Describes the failure `what` of `rank`. `rank` may be a number that the program does not have.
  ExecutionError failure_of(std::int32_t rank, const std::string& what, Phase phase) const;
  /// Records that the rank's connection has closed. Only the first call counts, because later connections
  /// close as a consequence.
  void lose(std::int32_t rank);
  /// Returns how long a phase may take. It does not apply to Phase::running.
  std::chrono::nanoseconds patience_of(Phase phase) const;

 private:
  std::optional<ExecutionError> fault_in(const Wait& wait) const;
  /// Returns the fault in the phase `joining`, or nothing.
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
  std::optional<std::int32_t> lost_;  // first rank that closed its connection
  TimePoint lost_at_;
};

}  // namespace penstock
