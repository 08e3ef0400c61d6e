#pragma once
// Computes the bytes that every rank holds over time, by category, from the spans of a run.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"

namespace penstock {

struct MemoryOptions {
  bool samples = true;  ///< true for memory over time as well as peaks, false for peaks only
};

/// Sets in `memory` the capacity and the reserve of the rank's device, and the unit of the amounts.
void set_device(RankMemory& memory, const Experiment& experiment, std::int32_t rank);

/// Computes the memory of one rank at a time. Bytes are charged (added) at the start of actions, and released
/// at the end:
///
///     weights            from the start to the end; sharding 3: 1/n of a group of n, and also the whole
///                        from UNSHARD to RESHARD
///     weight_versions    an older version from the STEP that replaced it to the end of its last use
///     gradients          from the first B, W or REDUCE_GRAD after a STEP to the end of the next STEP;
///                        sharding >= 2: from the REDUCE_GRAD on 1/n, and also the whole from the
///                        next B or W to the next REDUCE_GRAD
///     optimizer_state    from the start to the end; sharding >= 1: 1/n
///     activations        `kept` from F to B, or `released_by_input` to I and the rest to W; a recomputed
///                        microbatch has its stage's input from F to B (or I), and `kept` from R on;
///                        `recomputed` from I to W; without backwards, `kept` to the end of the run, and
///                        an output for a stage on the same rank from the end of F to the end of that F;
///                        not from the end of OFFLOAD and of the SEND_Fs to the start of RELOAD
///     send_buffers       from the producer's end to the arrival
///     receive_buffers    from the transfer's start to the consumer's end
///     transient          while F, B, I, W or R runs
///
/// At one instant, releases come before charges. Otherwise, changes at one instant are in program order
/// (spans.hpp).
class MemoryOfRanks {
 public:
  /// Keeps a reference to the experiment, which must outlive this object.
  MemoryOfRanks(const Experiment& experiment, const MemoryOptions& options);

  /// Returns the memory of one rank. `spans` are the start and end of its actions and messages, in program
  /// order.
  RankMemory of(std::int32_t rank, std::span<const Span> spans) const;

 private:
  const Experiment& experiment_;
  MemoryOptions options_;
  EdgeNumbers edges_;
  StageNeighbours neighbours_;
  std::vector<std::vector<std::int32_t>> stages_of_rank_;  // stages of each rank, ascending
};

/// Return the memory of all ranks, in the order of the ranks.
std::vector<RankMemory> memory_of(const EngineRun& run, const Experiment& experiment,
                                  const MemoryOptions& options);
std::vector<RankMemory> memory_of(const Timeline& timeline, const Experiment& experiment,
                                  const MemoryOptions& options);

// Finds the peak memory of each rank for callers that do not need memory over time. list_peaks() needs only
// the order of each rank's list. tape_peaks() and phase_peaks() also count message buffers. All use
// ListHoldings, which computes the bytes that actions charge and release.

/// The bytes that one action charges (adds to the rank's memory) and releases, without message buffers.
struct ActionHolding {
  Bytes charged = 0;    ///< bytes that are charged at the start and remain after the action
  Bytes transient = 0;  ///< bytes that exist only while the action runs
  Bytes released = 0;   ///< bytes that are released at the end, in addition to `transient`
};

/// Returns true if the actions alone determine the bytes that the ranks hold, except message buffers.
/// ListHoldings then counts all of them. In such a program, each STEP releases the weight version that it
/// replaces. All microbatches have equal costs, and nothing is sharded. No rank holds outputs of forward
/// passes for itself (holds_local_activations()). `program` must be a compute program, and `costs` the
/// costs of its stages.
bool is_held_by_actions(const Program& program, const CostTable& costs);
/// Returns true if is_held_by_actions() is true and all compute actions take time. Then the peaks without
/// message buffers depend only on the order of the lists.
bool follows_from_lists(const Program& program, const CostTable& costs);

/// Returns the bytes that each rank holds during the whole run: weights, cloned weights and optimizer
/// state.
std::vector<Bytes> held_at_start(const Program& program, const CostTable& costs);

/// A calculator of the bytes that each action charges and releases. The caller must pass the actions of
/// each rank in the order of the rank's list. It may alternate between ranks.
class ListHoldings {
 public:
  /// Keeps a reference to the costs, which must outlive this object.
  explicit ListHoldings(const CostTable& costs);

  /// Returns the bytes that the next action of a rank's list charges and releases. Returns nothing if the
  /// action overlaps the next one, or if its kind is not F, B, I, W or STEP.
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

  const CostTable& costs_;
  std::vector<std::array<OfKind, kActionKindCount>> kinds_;  // bytes of one action of each kind on each stage
  // The gradient bytes that are held for each stage. Each stage must be on one rank.
  std::vector<Bytes> gradients_;
};

/// Returns the peak memory of each rank in bytes, found from the order of the lists alone. It equals the
/// peak that MemoryOfRanks finds. Returns nothing if a message has a buffer, or if ListHoldings does not
/// support some action. `program` must be a compute program, and `costs` the costs of its stages.
std::optional<std::vector<Bytes>> list_peaks(const Program& program, const CostTable& costs);

/// Returns the peak memory of each rank in bytes, including message buffers. Returns nothing if
/// ListHoldings does not support some action, or if the order of changes at one instant is not known.
/// `turns` must be the tape of the compute program `program`, without collectives. `costs` are the costs of
/// its stages, and `priced` the costs of the tape. Takes O(actions x ranks with which a rank exchanges
/// messages).
std::optional<std::vector<Bytes>> tape_peaks(const Program& program, const CostTable& costs,
                                             const TurnTape& turns, const TapeCosts& priced);

/// Returns the same peaks as tape_peaks(), but is several times as fast. Also returns nothing if an action
/// or a message takes no time, or if several ranks hold one stage.
std::optional<std::vector<Bytes>> phase_peaks(const Program& program, const CostTable& costs,
                                              const TurnTape& turns, const TapeCosts& priced);

}  // namespace penstock
