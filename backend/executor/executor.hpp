#pragma once
// Executes a lowered program: one worker thread a rank runs its list, action by action, whatever schedule it
// came from. The rules are those of schedules/check/rendezvous_walk.hpp, the answer is a Timeline as the
// simulator returns it.

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

/// Modules by rank and stage; null where the rank does not hold the stage.
using StageModules = std::vector<std::vector<std::unique_ptr<StageModule>>>;

/// What is executed, by what, over what. All references must outlive the call of execute().
struct Execution {
  const Program& program;   ///< validated, lowered, and found free of hangs under transport.channels()
  const FlatProgram& flat;  ///< laid out with transport.channels()
  StageModules& modules;
  Transport& transport;
  const Clock& clock;
  /// The run has failed when a compute action takes longer, or when no worker gets on for so long. Host time.
  std::chrono::nanoseconds deadline = std::chrono::minutes(1);
  /// By rank: where its compute actions run; empty: on the ranks' threads.
  std::span<ComputeQueue* const> queues{};
};

/// Why a run failed.
struct ExecutionError {
  std::int32_t rank = 0;  ///< where it failed
  std::string action;     ///< what that rank was at: "1F2"
  std::int32_t peer =
      -1;  ///< the rank that it waited for, or else the first that waits for it or needs it next; -1: none
  std::string message;  ///< all of it in words
};

/// Runs the program once. When a worker fails or the deadline passes, every other worker ends, and the
/// answer is the first failure. Returns when all its threads have ended; a module that heeds neither its
/// work nor its stop token keeps it waiting.
tl::expected<Timeline, ExecutionError> execute(const Execution& execution);

}  // namespace penstock
