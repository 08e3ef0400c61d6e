#pragma once
// The interpreter of one rank's list. Used only by the executor.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/executor/launch_ahead.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/progress.hpp"
#include "backend/executor/rank_plan.hpp"
#include "backend/executor/stage_module.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

class RankWorker {
 public:
  /// Writes only the times of this rank's positions into `times`.
  RankWorker(const Execution& execution, std::int32_t rank, ProgramTimes& times, Progress& progress);

  /// Runs the whole list on the calling thread, and returns when the rank's queue has also ended it. Throws
  /// what a module or the transport throws.
  void run(const std::stop_token& stop);

 private:
  /// Handles a position that is not computed: SEND, RECV, a collective, RESHARD or a barrier.
  void pass(std::int32_t position);
  /// Runs the compute group at `position`: waits, computes, sends, and releases the inputs.
  void run_group(std::int32_t position, const std::stop_token& stop);
  void run_leaf(std::int32_t position, const ComputeCall& call);
  /// Receives all inputs that the group at `position` is the first to need.
  void wait_for_inputs(std::int32_t position);
  void wait_for(std::int32_t message);
  /// Passes the result of an UNSHARD or REDUCE_GRAD that has ended to its module.
  void accept_collective(std::int32_t position);
  /// Takes the inputs of `action` out of the inbox, one for each stage that sends it this flow. Requires that
  /// they are present.
  std::vector<Payload> inputs_of(const Action& action, Flow flow);
  /// Puts each output into the outbox, or into the inbox if the receiving stage is on this rank.
  void hand_on(const Action& action, Flow flow, std::vector<Payload> outputs);
  void send_outputs();
  void pass_send(std::int32_t position);
  void pass_collective(std::int32_t position);
  void finish_gathers();
  void drop_versions(std::int32_t position);
  void stamp(std::int32_t position, Ns start_ns, Ns end_ns);
  StageModule& module_of(std::int32_t stage);
  /// Publishes the rank's position and the message that it waits for (kNone: none), for the watchdog.
  void stand_at(std::int32_t position, std::int32_t message);

  const Execution& execution_;
  const FlatProgram& flat_;
  std::int32_t rank_;
  ProgramTimes& times_;
  Progress& progress_;
  StageNeighbours neighbours_;
  RankPlan plan_;
  bool blocking_;
  std::optional<LaunchAhead> ahead_;                // absent if this thread computes
  std::map<StageMessage, Payload> inbox_;           // inputs of this rank's later compute actions
  std::map<std::int32_t, Payload> outbox_;          // by message: outputs that are not sent yet
  std::map<std::int32_t, std::int32_t> gathering_;  // by stage: an UNSHARD whose result has not been accepted
};

}  // namespace penstock
