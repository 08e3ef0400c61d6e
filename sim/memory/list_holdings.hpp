#pragma once
// What actions that run one by one charge and release, whatever their times. Used by list_peak.cpp and
// tape_peak.cpp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// What a rank holds beside messages is charged when actions start and released when they end.
struct ActionHolding {
  Bytes charged = 0;    ///< for longer than the action
  Bytes transient = 0;  ///< while it runs
  Bytes released = 0;   ///< of what was charged, by it or before it
};

/// True where ListHoldings says all that ranks hold beside messages, a version goes with the STEP that
/// replaces it, and all microbatches are alike. Requires a compute program and costs of its stages.
bool is_held_by_actions(const Program& program, const CostTable& costs);
/// And where that follows from the order of lists, since all actions take time.
bool follows_from_lists(const Program& program, const CostTable& costs);

/// By rank what is there from the start.
std::vector<Bytes> held_at_start(const Program& program, const CostTable& costs);

/// Goes through the lists of ranks, one after the other or in turns, action by action.
class ListHoldings {
 public:
  /// The costs must outlive it.
  explicit ListHoldings(const CostTable& costs);

  /// Of the next action of a rank's list; nothing of kinds but F, B, I, W and STEP, and where it overlaps.
  std::optional<ActionHolding> next(const Action& action) {
    const OfKind& of_kind = kinds_[index(action.stage)][static_cast<std::size_t>(action.kind)];
    if (!of_kind.known || action.overlaps_next) return std::nullopt;
    ActionHolding holding = of_kind.holding;
    Bytes& gradients = gradients_[index(action.stage)];
    if (makes_weight_gradient(action.kind)) {
      const Bytes all = costs_.stages[index(action.stage)].gradients;
      holding.charged += all - gradients;
      gradients = all;
    } else if (action.kind == ActionKind::step) {
      holding.released += gradients;
      gradients = 0;
    }
    return holding;
  }

 private:
  struct OfKind {
    bool known = false;
    ActionHolding holding;  ///< but for gradients
  };
  static constexpr std::size_t kKinds = static_cast<std::size_t>(ActionKind::step) + 1;

  const CostTable& costs_;
  std::vector<std::array<OfKind, kKinds>> kinds_;  // by stage and kind
  std::vector<Bytes> gradients_;  // by stage, each of which is on one rank: those that are held
};

}  // namespace penstock
