#pragma once
// The costs of actions: the only thing that an engine knows about the model and the devices. scenarios/ fills
// the table from stated times, profiles or calibrations. All figures are for one microbatch. Microbatches may
// all cost the same, or each its own (sequences of different lengths, packing, images).

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The durations and sizes of one stage. Durations are at least 0 ns and sizes at least 0 bytes, unless
/// stated.
struct StageCost {
  Ns forward_ns = 0;
  Ns backward_ns = 0;
  Ns backward_input_ns = 0;
  Ns backward_weight_ns = 0;
  Ns recompute_ns = 0;
  Ns step_ns = 0;
  /// The duration of an overlapped pair with an action on this stage; -1 means the sum of both durations.
  Ns overlapped_pair_ns = -1;
  /// Activations that are held from F to B.
  Bytes kept = 0;
  /// The part of `kept` that I releases. W releases the rest.
  Bytes released_by_input = 0;
  /// Activations that the backward pass computes again without an R. I charges them, and W reads and releases
  /// them. A B holds those of one layer at a time, which are counted in `transient`.
  Bytes recomputed = 0;
  /// The bytes that F retains under re-materialisation if no stage edge feeds the stage.
  Bytes input = 0;
  /// One version of the weights.
  Bytes weights = 0;
  /// Clones of the weights that exist from start to end beside them; 0 means that versions are made as
  /// needed.
  Bytes cloned_weights = 0;
  /// Gradients, held from the first B or W after a STEP to the next STEP.
  Bytes gradients = 0;
  Bytes optimizer_state = 0;
  /// Bytes that are held only while an F, B, I, W or R runs.
  Bytes transient = 0;
  /// The part of `transient` that I and W count in `recomputed` instead.
  Bytes recomputed_at_once = 0;

  /// Returns the bytes of an older version from the STEP that replaces it to its last use.
  Bytes version_bytes() const { return cloned_weights > 0 ? 0 : weights; }

  friend bool operator==(const StageCost&, const StageCost&) = default;
};

/// Bytes that one microbatch sends over one stage edge.
struct EdgeCost {
  Bytes activation = 0;
  Bytes gradient = 0;

  friend bool operator==(const EdgeCost&, const EdgeCost&) = default;
};

/// The costs of one microbatch, for microbatches that differ from each other.
struct MicrobatchCost {
  /// Costs by stage of the program. Costs that do not depend on the microbatch (STEP, weights) are equal to
  /// those of the mean microbatch.
  std::vector<StageCost> stages;
  /// Costs by edge of the program, in the order of EdgeNumbers.
  std::vector<EdgeCost> edges;

  friend bool operator==(const MicrobatchCost&, const MicrobatchCost&) = default;
};

/// The cost for the host of a rank to launch actions on its device.
struct LaunchCost {
  /// The time to launch each group of compute actions, each SEND, each RECV and each collective; at least 0.
  Ns overhead_ns = 0;
  /// The largest number of compute actions that are launched and have not ended; 0 means no bound.
  std::int32_t most_ahead = 0;

  /// Returns true if launching takes no time and has no bound.
  bool is_free() const { return overhead_ns == 0 && most_ahead == 0; }

  friend bool operator==(const LaunchCost&, const LaunchCost&) = default;
};

/// The costs of a program's stages and edges.
struct CostTable {
  /// Costs of the mean microbatch, by stage of the program.
  std::vector<StageCost> stages;
  /// Costs of the mean microbatch, by edge of the program in the order of EdgeNumbers.
  std::vector<EdgeCost> edges;
  /// Costs of each microbatch, or empty if all microbatches cost the same. Microbatch m has the costs of
  /// entry m mod size(). size() divides the program's M, so that iterations are alike.
  std::vector<MicrobatchCost> microbatches{};
  /// The number of slices of a microbatch. Each slice has the same share of its costs.
  std::int32_t slices = 1;
  /// The launch cost on every rank.
  LaunchCost launch{};

  bool microbatches_differ() const { return !microbatches.empty(); }
  /// Returns the costs of the action's stage for the action's microbatch, or for the mean microbatch if the
  /// action has none.
  const StageCost& stage_of(const Action& action) const;
  /// Returns the entry of `microbatches` for a unit. Requires that microbatches differ and unit >= 0.
  const MicrobatchCost& of_unit(std::int32_t unit) const;

  friend bool operator==(const CostTable&, const CostTable&) = default;
};

/// Returns the duration of a compute action that is not part of an overlapped pair. Throws std::logic_error
/// for other kinds.
Ns duration_ns(const StageCost& cost, ActionKind kind);
/// Returns the duration of an overlapped pair: the larger overlapped_pair_ns of the two stages, or the sum of
/// both durations if neither stage states one.
Ns pair_duration_ns(const CostTable& costs, const Action& first, const Action& second);
/// Returns the duration of a group of overlapped compute actions: of one action its own duration, of two
/// actions pair_duration_ns(), of more actions the sum.
Ns group_duration_ns(const CostTable& costs, std::span<const Action> group);
/// Returns the bytes of a SEND or RECV of the program whose edges are given. Throws std::logic_error if the
/// table does not have one entry an edge.
Bytes transfer_bytes(const CostTable& costs, const EdgeNumbers& edges, const Action& transfer);

/// A cache in front of transfer_bytes() for the transfers of one rank. Successive transfers of one kind
/// mostly have the same size.
class TransferSizes {
 public:
  /// Both arguments must outlive the cache.
  TransferSizes(const CostTable& costs, const EdgeNumbers& edges) : costs_(costs), edges_(edges) {}

  Bytes of(const Action& transfer) {
    Last& last =
        last_[static_cast<std::size_t>(transfer.kind) - static_cast<std::size_t>(ActionKind::send_forward)];
    const bool same = last.stage == transfer.stage && last.peer == transfer.peer;
    if (!same || costs_.microbatches_differ())
      last = {transfer.stage, transfer.peer, transfer_bytes(costs_, edges_, transfer)};
    return last.bytes;
  }

 private:
  struct Last {
    std::int32_t stage = -1;
    std::int32_t peer = -1;
    Bytes bytes = 0;
  };
  const CostTable& costs_;
  const EdgeNumbers& edges_;
  std::array<Last, 4> last_{};  // by kind: SEND_F, RECV_F, SEND_B, RECV_B
};

/// Returns the size of the buffer of an UNSHARD (the stage's weights) or a REDUCE_GRAD (its gradients).
Bytes collective_bytes(const CostTable& costs, const Action& collective);
/// Returns the bytes that each member of a collective sends, and receives, in a ring of n ranks. That is
/// 2(n-1)/n of the buffer for an all-reduce of gradients (sharding 0). It is (n-1)/n for reduced and
/// scattered gradients and for gathered weights. The result is rounded up.
Bytes ring_bytes(const Program& program, const CostTable& costs, const Action& collective);

/// Returns a table in which every stage costs `stage` and every edge `edge`. Messages are empty by default.
CostTable uniform_costs(const Program& program, const StageCost& stage, const EdgeCost& edge = {});

/// The number of parts of one activation, the unit of memory where no bytes are known. One activation is what
/// a microbatch leaves on a rank's whole share of the model. 720 720 is divisible by 1 to 16, so that each of
/// up to 16 chunks has a whole number of parts.
inline constexpr Bytes kActivationParts = 720'720;
/// Returns a number of activations in parts, at most the largest number of 64 bits.
constexpr Bytes amount_of_activations(Bytes activations) {
  constexpr Bytes kMost = std::numeric_limits<Bytes>::max();
  return activations > kMost / kActivationParts ? kMost : activations * kActivationParts;
}

/// The costs of a stage without a model: F, I, W and R take 1 ms, B takes 2 ms, and one activation is one
/// unit of memory.
inline constexpr StageCost kUnitStage{.forward_ns = 1'000'000,
                                      .backward_ns = 2'000'000,
                                      .backward_input_ns = 1'000'000,
                                      .backward_weight_ns = 1'000'000,
                                      .recompute_ns = 1'000'000,
                                      .kept = 1};
/// Returns a table in which every stage costs kUnitStage and messages are empty.
CostTable unit_costs(const Program& program);

}  // namespace penstock
