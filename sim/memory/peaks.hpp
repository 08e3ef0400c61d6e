#pragma once
// Finds the peak memory of each rank, for callers that need no curve over time (memory.hpp). list_peak.cpp
// uses only the order of each rank's list. tape_peak.cpp also counts message buffers, in one pass over a
// tape. Both use ListHoldings, which knows the bytes that actions charge and release.

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
#include "sim/engines/compile.hpp"
#include "sim/engines/evaluate.hpp"

namespace penstock {

/// The bytes that one action charges at its start and releases at its end, without message buffers.
struct ActionHolding {
  Bytes charged = 0;    ///< bytes that stay charged after the action
  Bytes transient = 0;  ///< bytes that are held only while the action runs
  Bytes released = 0;   ///< bytes that this action or an earlier one has charged
};

/// Returns whether ListHoldings covers all bytes of the ranks except message buffers. This requires that a
/// weight version is released by the STEP that replaces it, and that all microbatches are equal. `program`
/// must be a compute program, and `costs` the costs of its stages.
bool is_held_by_actions(const Program& program, const CostTable& costs);
/// Returns whether is_held_by_actions() is true and all compute actions take time, so that peaks follow from
/// the order of the lists alone.
bool follows_from_lists(const Program& program, const CostTable& costs);

/// Returns the bytes that each rank holds from the start.
std::vector<Bytes> held_at_start(const Program& program, const CostTable& costs);

/// Computes what each action charges and releases. The caller passes the actions of each rank in the order of
/// its list; ranks may alternate.
class ListHoldings {
 public:
  /// Keeps a reference to the costs, which must outlive this object.
  explicit ListHoldings(const CostTable& costs);

  /// Returns what the next action of a rank's list charges and releases. Returns nothing if the action
  /// overlaps the next one or its kind is not F, B, I, W or STEP.
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
    ActionHolding holding;  ///< bytes of the action without the gradients
  };
  static constexpr std::size_t kKinds = static_cast<std::size_t>(ActionKind::step) + 1;

  const CostTable& costs_;
  std::vector<std::array<OfKind, kKinds>> kinds_;  // index: stage, then action kind
  // Gradient bytes that are held for each stage; requires that one rank runs the stage.
  std::vector<Bytes> gradients_;
};

/// Returns the largest number of bytes that each rank holds at once, as MemoryOfRanks computes it. Returns
/// nothing if a message has a buffer or ListHoldings does not know some action. Requires a compute program
/// and the costs of its stages.
std::optional<std::vector<Bytes>> list_peaks(const Program& program, const CostTable& costs);

/// Returns the largest number of bytes that each rank holds at once, as MemoryOfRanks computes it. Returns
/// nothing if ListHoldings does not know some action. `turns` is the tape of the compute program `program`,
/// without collectives. `costs` are the costs of its stages, and `priced` the costs of the tape. Takes
/// O(actions x ranks with which a rank exchanges messages).
std::optional<std::vector<Bytes>> tape_peaks(const Program& program, const CostTable& costs,
                                             const TurnTape& turns, const TapeCosts& priced);

/// Returns the highest peak of all ranks, or nothing in the cases of tape_peaks(). It computes in full only
/// the peaks of ranks that may have the highest one.
std::optional<Bytes> highest_tape_peak(const Program& program, const CostTable& costs, const TurnTape& turns,
                                       const TapeCosts& priced);

/// Returns for each rank a number of bytes that its send and receive buffers together never exceed. `turns`
/// is the tape of the compute program `program`, and `times` are the times of its instructions. Takes
/// O(actions).
std::vector<Bytes> most_of_messages(const Program& program, const CostTable& costs, const TurnTape& turns,
                                    const std::vector<InstructionTimes>& times);

}  // namespace penstock
