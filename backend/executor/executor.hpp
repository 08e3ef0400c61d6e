#pragma once
// Executes a lowered program of any schedule. One worker thread for each rank runs the actions of the rank's
// list in order. Messages follow the rules of schedules/check/rendezvous_walk.hpp. The result is a Timeline,
// as the simulator returns it.

#include <chrono>
#include <cstdint>
#include <memory>
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

}  // namespace penstock
