#pragma once
// Executes a lowered program. One worker thread for each rank runs the rank's list, action by action,
// whatever its schedule. The rules are those of schedules/check/rendezvous_walk.hpp. The result is a Timeline
// like the simulator's.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/executor/clock.hpp"
#include "backend/executor/compute_queue.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The modules, indexed by rank and stage; null if the rank does not hold the stage.
using StageModules = std::vector<std::vector<std::unique_ptr<StageModule>>>;

/// A program with everything that is needed to execute it. All references must outlive the call of execute().
struct Execution {
  const Program& program;   ///< must be valid, lowered, and free of hangs under transport.channels()
  const FlatProgram& flat;  ///< must be flattened with transport.channels()
  StageModules& modules;
  Transport& transport;
  const Clock& clock;
  /// Host time after which the run fails if a compute action has not ended or no worker makes progress.
  std::chrono::nanoseconds deadline = std::chrono::minutes(1);
  /// Each rank's queue, which runs its compute actions. If empty, the ranks' threads run them.
  std::span<ComputeQueue* const> queues{};
};

/// The failure of a run.
struct ExecutionError {
  std::int32_t rank = 0;  ///< rank that failed
  std::string action;     ///< action of that rank: "1F2"
  std::int32_t peer =
      -1;  ///< rank that it waited for, otherwise the first rank that waits for it or needs it next; -1: none
  std::string message;  ///< the whole message
};

/// Runs the program once. When a worker fails or the deadline passes, all other workers are stopped, and the
/// first failure is returned. The call returns when all threads have ended. A module that ignores its stop
/// token delays this.
tl::expected<Timeline, ExecutionError> execute(const Execution& execution);

}  // namespace penstock
