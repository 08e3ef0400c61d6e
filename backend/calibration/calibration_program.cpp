// Makes the programs that a calibration runs. A published schedule gives one list for every stage, as if each
// stage had its own rank. If a rank has several stages, their lists are merged into one. The merged order is
// a possible execution in which all actions take the same time:
//
//     stage 0   F0 F1 B0 B1            rank 0 (stages 0 and 2)   0F0 2F0 2B0 0F1 ...
//     stage 1   F0 B0 F1 B1     ->     rank 1 (stage 1)          1F0 1B0 1F1 1B1
//     stage 2   F0 B0 F1 B1
//
// Tests: tests/backend/calibration_test.cpp.

#include "backend/calibration/calibration_program.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

/// Replaces each B, or every second one, by I and W: 0B1 becomes 0I1 0W1.
std::vector<Action> with_backward_form(const std::vector<Action>& list, BackwardForm form) {
  std::vector<Action> formed;
  for (const Action& action : list) {
    // In the form `both`, even microbatches have B, and odd ones have I and W.
    const bool split =
        form == BackwardForm::split || (form == BackwardForm::both && action.microbatch % 2 == 1);
    formed.push_back(action);
    if (action.kind != ActionKind::backward || !split) continue;
    formed.back().kind = ActionKind::backward_input;
    formed.push_back(action);
    formed.back().kind = ActionKind::backward_weight;
  }
  return formed;
}

/// Merges the lists of stages into lists of ranks. In one round, each rank runs at most one action.
class Merge {
 public:
  Merge(std::vector<std::vector<Action>> lists, std::int32_t microbatches)
      : lists_(std::move(lists)),
        next_(lists_.size(), 0),
        forward_done_(lists_.size(), std::vector<bool>(index(microbatches))),
        gradient_done_(forward_done_) {}

  /// Returns the lists of the ranks. Each round appends at most one action to the list of every rank, until
  /// no action is left.
  std::vector<std::vector<Action>> onto(const std::vector<std::int32_t>& rank_of_stage, std::size_t ranks) {
    std::vector<std::vector<Action>> merged(ranks);
    bool moved = true;
    while (moved) {
      moved = false;
      std::vector<Action> round;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const auto stage = ready_stage(rank_of_stage, static_cast<std::int32_t>(rank));
        if (!stage) continue;
        round.push_back(lists_[*stage][next_[*stage]++]);
        merged[rank].push_back(round.back());
        moved = true;
      }
      // The results of a round are recorded only after it, so that other ranks use them in the next round.
      for (const Action& action : round) note(action);
    }
    return merged;
  }

 private:
  /// Returns a stage of the rank that can run its next action, or nothing. Prefers backward actions to
  /// forward actions. Among forward actions, prefers the later stage. Among backward actions, prefers the
  /// earlier stage.
  std::optional<std::size_t> ready_stage(const std::vector<std::int32_t>& rank_of_stage,
                                         std::int32_t rank) const {
    std::optional<std::size_t> found;
    for (std::size_t stage = 0; stage < lists_.size(); ++stage) {
      if (rank_of_stage[stage] != rank || next_[stage] == lists_[stage].size() || !is_ready(stage)) continue;
      if (!found || lists_[*found][next_[*found]].kind == ActionKind::forward) found = stage;
    }
    return found;
  }

  bool is_ready(std::size_t stage) const {
    const Action& action = lists_[stage][next_[stage]];
    if (action.kind == ActionKind::forward && stage > 0)
      return forward_done_[stage - 1][index(action.microbatch)];
    if (makes_input_gradient(action.kind) && stage + 1 < lists_.size())
      return gradient_done_[stage + 1][index(action.microbatch)];
    return true;
  }

  void note(const Action& action) {
    if (action.kind == ActionKind::forward)
      forward_done_[index(action.stage)][index(action.microbatch)] = true;
    if (makes_input_gradient(action.kind))
      gradient_done_[index(action.stage)][index(action.microbatch)] = true;
  }

  std::vector<std::vector<Action>> lists_;       // action list of each stage
  std::vector<std::size_t> next_;                // number of each stage's actions that are already merged
  std::vector<std::vector<bool>> forward_done_;  // true if F has run, by stage and microbatch
  std::vector<std::vector<bool>> gradient_done_;
};

}  // namespace

tl::expected<Program, std::string> calibration_program(const Program& like, const CalibrationShape& shape) {
  const bool alone = shape.load == CalibrationLoad::alone;
  auto rule = generate(alone ? "naive" : "1f1b",
                       {.stages = like.stage_count(),
                        .microbatches = shape.microbatches,
                        .checkpoint = shape.recomputes ? Checkpoint::always : Checkpoint::never,
                        .update = alone ? UpdateRule::microbatch : UpdateRule::minibatch});
  if (!rule) return rule;
  // A stage has the same cost on each of its replicas, so only the first replica is measured.
  std::vector<std::int32_t> rank_of_stage;
  for (StagePlacement& stage : rule->placement.stages) stage = {};
  for (std::size_t stage = 0; stage < like.placement.stages.size(); ++stage) {
    rank_of_stage.push_back(like.placement.stages[stage].ranks.front());
    rule->placement.stages[stage].ranks = {rank_of_stage.back()};
  }
  for (std::vector<Action>& list : rule->ranks) list = with_backward_form(list, shape.backward);
  rule->ranks =
      Merge(std::move(rule->ranks), shape.microbatches).onto(rank_of_stage, index(like.rank_count()));
  rule->schedule = alone ? "calibration-alone" : "calibration-busy";
  return rule;
}

}  // namespace penstock
