#pragma once
// The interpreter of one rank's list. Private to the executor.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stop_token>
#include <vector>

#include "backend/executor.hpp"
#include "backend/payload.hpp"
#include "backend/progress.hpp"
#include "backend/rank_plan.hpp"
#include "backend/stage_module.hpp"
#include "schedules/action.hpp"
#include "schedules/program.hpp"
#include "schedules/rendezvous_walk.hpp"

namespace penstock {

class RankWorker {
 public:
  /// Writes the times of this rank's positions into `times`, nobody else's.
  RankWorker(const Execution& execution, std::int32_t rank, Walk& times, Progress& progress);

  /// Runs the whole list on the calling thread. Throws what a module or the transport throws.
  void run(const std::stop_token& stop);

 private:
  void pass(std::int32_t position);
  void run_group(std::int32_t position, const std::stop_token& stop);
  void run_leaf(std::int32_t position, const ComputeCall& call);
  void wait_for_inputs(std::int32_t position);
  void wait_for(std::int32_t message);
  void accept_collective(std::int32_t position);
  std::vector<Payload> inputs_of(const Action& action, bool gradient);
  void hand_on(const Action& action, bool gradient, std::vector<Payload> outputs);
  void send_outputs();
  void pass_send(std::int32_t position);
  void pass_collective(std::int32_t position);
  void finish_gathers();
  void drop_versions(std::int32_t position);
  void stamp(std::int32_t position, Ns start_ns, Ns end_ns);
  StageModule& module_of(std::int32_t stage);
  const std::vector<std::int32_t>& givers_of(std::int32_t stage, bool gradient) const;
  const std::vector<std::int32_t>& takers_of(std::int32_t stage, bool gradient) const;
  void stand_at(std::int32_t position, std::int32_t message);

  const Execution& execution_;
  const FlatProgram& flat_;
  std::int32_t rank_;
  Walk& times_;
  Progress& progress_;
  StageNeighbours neighbours_;
  RankPlan plan_;
  bool blocking_;
  std::map<Flow, Payload> inbox_;                   // what compute actions of this rank will take
  std::map<std::int32_t, Payload> outbox_;          // by message: made, and not sent yet
  std::map<std::int32_t, std::int32_t> gathering_;  // by stage: an UNSHARD that has not been accepted
};

}  // namespace penstock
