#pragma once
// Runs the list of one rank, action by action. A RankPlan is computed before the clock starts, so that the
// worker searches for nothing while it runs.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/executor/launch_ahead.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A weight version, and the stage to which it belongs.
struct StageVersion {
  std::int32_t stage = 0;
  std::int32_t version = 0;
};

struct RankPlan {
  /// The number of each message that this rank sends to another rank. An output that is not in the map goes
  /// to a stage on this rank.
  std::map<StageMessage, std::int32_t> messages;
  std::set<std::pair<std::int32_t, std::int32_t>> recomputed;  ///< (stage, microbatch) of each R action
  /// The weight versions that the worker drops after the action at each position. No later action uses such
  /// a version, and a STEP has replaced it.
  std::map<std::int32_t, std::vector<StageVersion>> dropped_after;
};
RankPlan plan_of(const FlatProgram& flat, std::int32_t rank);

// Runs one rank's list of actions. Only executors use it.

class RankWorker {
 public:
  /// Makes the worker of `rank`. It writes into `times` only at the positions of this rank's list.
  RankWorker(const Execution& execution, std::int32_t rank, ProgramTimes& times, Progress& progress);

  /// Runs the whole list of the rank on the calling thread. If the rank has a ComputeQueue, returns when
  /// the queue has also finished all actions. Throws the exceptions of the modules and the transport.
  void run(const std::stop_token& stop);

 private:
  /// Handles a SEND, a RECV, a collective, a RESHARD or a barrier.
  void pass(std::int32_t position);
  /// Runs the compute actions that form one group at `position`. It waits for their inputs, computes, sends
  /// the outputs, and releases the inputs.
  void run_group(std::int32_t position, const std::stop_token& stop);
  void run_leaf(std::int32_t position, const ComputeCall& call);
  /// Waits for the messages that the group at `position` needs and no earlier action has waited for.
  void wait_for_inputs(std::int32_t position);
  void wait_for(std::int32_t message);
  /// Waits until the transport has room for the message that this rank posts next.
  void make_room(std::int32_t message);
  /// Passes the result of the UNSHARD or REDUCE_GRAD at `position` to the module of its stage. Requires that
  /// the collective has ended.
  void accept_collective(std::int32_t position);
  /// Takes the inputs of `action` out of the inbox and returns them. `flow` says whether they are
  /// activations or gradients. There is one input from each stage that sends to the action's stage.
  /// Requires that all are in the inbox.
  std::vector<Payload> inputs_of(const Action& action, Flow flow);
  /// Puts each output of `action` into the outbox. If the receiving stage is on this rank, puts it into the
  /// inbox instead.
  void hand_on(const Action& action, Flow flow, std::vector<Payload> outputs);
  void send_outputs();
  std::int32_t pass_group(std::int32_t first);
  void pass_wait(std::int32_t position, const std::stop_token& stop);
  void post_send(std::int32_t message);
  void pass_collective(std::int32_t position);
  void finish_gathers();
  void drop_versions(std::int32_t position);
  void stamp(std::int32_t position, Ns start_ns, Ns end_ns);
  StageModule& module_of(std::int32_t stage);
  /// Publishes the rank's position and the message for which it waits, so that the watchdog can read them.
  /// `message` is kNone if the rank does not wait.
  void stand_at(std::int32_t position, std::int32_t message);

  const Execution& execution_;
  const FlatProgram& flat_;
  std::int32_t rank_;
  ProgramTimes& times_;
  Progress& progress_;
  StageNeighbours neighbours_;
  RankPlan plan_;
  std::stop_token stop_;
  std::optional<LaunchAhead> ahead_;        // absent if this thread runs the compute actions itself
  std::map<StageMessage, Payload> inbox_;   // inputs of this rank's later compute actions
  std::map<std::int32_t, Payload> outbox_;  // outputs that are not sent yet, by the position of their SEND
  // For each stage, the position of an UNSHARD if the module has not received its result yet.
  std::map<std::int32_t, std::int32_t> gathering_;
};

}  // namespace penstock
