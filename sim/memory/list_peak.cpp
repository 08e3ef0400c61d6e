// A rank that does one thing after another charges at the start of an action and releases at its end, which
// is before the next one's start or at that instant, and there releases come first:
//
//   F   + kept         |                  held: weights, optimizer state, and what the list has
//   B   + gradients    | - kept                 charged and not released
//   STEP               | - gradients

#include "sim/memory/list_peak.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

bool takes_time(const StageCost& cost) {
  return std::min({cost.forward_ns, cost.backward_ns, cost.backward_input_ns, cost.backward_weight_ns}) > 0;
}

bool has_bytes(const EdgeCost& edge) { return edge.activation > 0 || edge.gradient > 0; }

/// F, B, I, W and STEP, one by one.
bool is_plain(const std::vector<Action>& list) {
  return std::ranges::all_of(list, [](const Action& action) {
    return (is_backward(action.kind) || action.kind == ActionKind::forward ||
            action.kind == ActionKind::step) &&
           !action.overlaps_next;
  });
}

class ListPeak {
 public:
  ListPeak(Bytes at_start, const CostTable& costs, std::vector<bool>& gradients_held)
      : costs_(costs), gradients_held_(gradients_held), held_(at_start), peak_(at_start) {}

  void run(const Action& action) {
    const StageCost& cost = costs_.stages[index(action.stage)];
    if (action.kind == ActionKind::step) {
      if (gradients_held_[index(action.stage)]) held_ -= cost.gradients;
      gradients_held_[index(action.stage)] = false;
      return;
    }
    if (action.kind == ActionKind::forward) held_ += cost.kept;
    if (makes_weight_gradient(action.kind) && !gradients_held_[index(action.stage)]) {
      gradients_held_[index(action.stage)] = true;
      held_ += cost.gradients;
    }
    peak_ = std::max(peak_, held_ + cost.transient);
    held_ -= released_activations(cost, action.kind);
  }
  Bytes peak() const { return peak_; }

 private:
  const CostTable& costs_;
  std::vector<bool>& gradients_held_;  // by stage
  Bytes held_;
  Bytes peak_;
};

}  // namespace

bool peaks_follow_from_lists(const Experiment& experiment) {
  const Program& program = experiment.program;
  const CostTable& costs = experiment.costs;
  return program.update == UpdateRule::minibatch && !program.mixed_versions && program.sharding == 0 &&
         program.iterations == 1 && !costs.microbatches_differ() &&
         std::ranges::none_of(costs.edges, has_bytes) && std::ranges::all_of(costs.stages, takes_time) &&
         std::ranges::all_of(program.ranks, is_plain);
}

std::vector<Bytes> list_peaks(const Experiment& experiment) {
  const Program& program = experiment.program;
  std::vector<Bytes> at_start(program.ranks.size(), 0);
  for (std::size_t stage = 0; stage < program.placement.stages.size(); ++stage) {
    const StageCost& cost = experiment.costs.stages[stage];
    for (const std::int32_t rank : program.placement.stages[stage].ranks)
      at_start[index(rank)] += cost.weights + cost.optimizer_state;
  }
  std::vector<Bytes> peaks;
  std::vector<bool> gradients_held(program.placement.stages.size(), false);
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    ListPeak peak(at_start[rank], experiment.costs, gradients_held);
    for (const Action& action : program.ranks[rank]) peak.run(action);
    for (const Action& action : program.ranks[rank]) gradients_held[index(action.stage)] = false;
    peaks.push_back(peak.peak());
  }
  return peaks;
}

}  // namespace penstock
