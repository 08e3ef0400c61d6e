// A rank that does one thing after another charges at the start of an action and releases at its end, which
// is before the next one's start or at that instant, and there releases come first:
//
//   F   + kept         |                  held: weights, optimizer state, and what the list has
//   B   + gradients    | - kept                 charged and not released
//   STEP               | - gradients

#include "sim/memory/list_peak.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/streamable.hpp"

namespace penstock {
namespace {

/// F, B, I, W and STEP, one by one.
bool is_plain(const std::vector<Action>& list) {
  return std::ranges::all_of(list, [](const Action& action) {
    return (is_backward(action.kind) || action.kind == ActionKind::forward ||
            action.kind == ActionKind::step) &&
           !action.overlaps_next;
  });
}

/// What starts when an action starts, and is over when it ends.
struct ListChange {
  Bytes charged = 0;
  Bytes transient = 0;
  Bytes released = 0;
};

constexpr std::size_t kPassKinds = static_cast<std::size_t>(ActionKind::step) + 1;
using StageChanges = std::array<ListChange, kPassKinds>;

/// By kind, but for gradients.
StageChanges changes_of(const StageCost& cost) {
  StageChanges changes;
  for (std::size_t kind = 0; kind < kPassKinds; ++kind) {
    const auto here = static_cast<ActionKind>(kind);
    if (!has_weight_version(here)) continue;
    changes[kind] = {.charged = here == ActionKind::forward ? cost.kept : 0,
                     .transient = cost.transient,
                     .released = released_activations(cost, here)};
  }
  return changes;
}

class ListPeaks {
 public:
  explicit ListPeaks(const CostTable& costs) : costs_(costs), gradients_(costs.stages.size(), 0) {
    for (const StageCost& cost : costs.stages) changes_.push_back(changes_of(cost));
  }

  Bytes of(const std::vector<Action>& list, Bytes held) {
    Bytes peak = held;
    for (const Action& action : list) {
      const ListChange& change = changes_[index(action.stage)][static_cast<std::size_t>(action.kind)];
      held += change.charged;
      if (makes_weight_gradient(action.kind)) held += opened_gradients(action.stage);
      peak = std::max(peak, held + change.transient);
      held -= change.released;
      if (action.kind == ActionKind::step) held -= std::exchange(gradients_[index(action.stage)], 0);
    }
    return peak;
  }

 private:
  /// What is charged where none are held.
  Bytes opened_gradients(std::int32_t stage) {
    Bytes& held = gradients_[index(stage)];
    const Bytes all = costs_.stages[index(stage)].gradients;
    return all - std::exchange(held, all);
  }

  const CostTable& costs_;
  std::vector<StageChanges> changes_;  // by stage
  std::vector<Bytes> gradients_;       // by stage, each of which is on one rank: those that are held
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
      at_start[index(rank)] += cost.weights + cost.cloned_weights + cost.optimizer_state;
  }
  std::vector<Bytes> peaks;
  peaks.reserve(program.ranks.size());
  ListPeaks lists(experiment.costs);
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank)
    peaks.push_back(lists.of(program.ranks[rank], at_start[rank]));
  return peaks;
}

}  // namespace penstock
