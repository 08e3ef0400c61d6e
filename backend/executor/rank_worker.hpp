#pragma once
// The interpreter of one rank's list. Private to the executor.

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
  /// Writes the times of this rank's positions into `times`, nobody else's.
  RankWorker(const Execution& execution, std::int32_t rank, ProgramTimes& times, Progress& progress);

  /// Runs the whole list on the calling thread, and returns when its queue has ended it, too. Throws what a
  /// module or the transport throws.
  void run(const std::stop_token& stop);

 private:
  /// A position that is not computed: SEND, RECV, a collective, RESHARD, a barrier.
  void pass(std::int32_t position);
  /// The compute group at `position`: waits, computes, sends, and gives back what it has used up.
  void run_group(std::int32_t position, const std::stop_token& stop);
  void run_leaf(std::int32_t position, const ComputeCall& call);
  /// Fills the inbox with all that the group at `position` is the first to need.
  void wait_for_inputs(std::int32_t position);
  void wait_for(std::int32_t message);
  /// Of an UNSHARD or REDUCE_GRAD that has ended: what it brought, to its module.
  void accept_collective(std::int32_t position);
  /// Out of the inbox, one a stage that gives `action` this flow. Requires that they are there.
  std::vector<Payload> inputs_of(const Action& action, Flow flow);
  /// Into the outbox, or into the inbox where the stage that takes it is on this rank, too.
  void hand_on(const Action& action, Flow flow, std::vector<Payload> outputs);
  void send_outputs();
  void pass_send(std::int32_t position);
  void pass_collective(std::int32_t position);
  void finish_gathers();
  void drop_versions(std::int32_t position);
  void stamp(std::int32_t position, Ns start_ns, Ns end_ns);
  StageModule& module_of(std::int32_t stage);
  /// Tells the watchdog where the rank is, and which message it waits for (kNone: it does not wait).
  void stand_at(std::int32_t position, std::int32_t message);

  const Execution& execution_;
  const FlatProgram& flat_;
  std::int32_t rank_;
  ProgramTimes& times_;
  Progress& progress_;
  StageNeighbours neighbours_;
  RankPlan plan_;
  bool blocking_;
  std::optional<LaunchAhead> ahead_;                // nothing: this thread computes
  std::map<StageMessage, Payload> inbox_;           // what compute actions of this rank will take
  std::map<std::int32_t, Payload> outbox_;          // by message: made, and not sent yet
  std::map<std::int32_t, std::int32_t> gathering_;  // by stage: an UNSHARD that has not been accepted
};

}  // namespace penstock
