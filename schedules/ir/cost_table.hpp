#pragma once
// What each action costs: the only thing that an engine knows about the model and the devices.
// Filled by scenarios/ from times, profiles or calibrations; all figures are for one microbatch, which may be
// like all others or one of its own (sequences of different lengths, packing, images).

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

/// Durations and bytes of one stage. Durations are >= 0 ns, sizes >= 0 bytes.
struct StageCost {
  Ns forward_ns = 0;
  Ns backward_ns = 0;
  Ns backward_input_ns = 0;
  Ns backward_weight_ns = 0;
  Ns recompute_ns = 0;
  Ns step_ns = 0;
  Ns overlapped_pair_ns = -1;   ///< of a pair with a leaf on this stage; -1: the sum of its leaves
  Bytes kept = 0;               ///< activations held from F to B
  Bytes released_by_input = 0;  ///< the part of `kept` that I gives back; W gives back the rest
  /// Activations that the backward pass computes again without an R. I charges them and W, which reads them,
  /// gives them back; a B has those of one layer at a time, in `transient`.
  Bytes recomputed = 0;
  Bytes input = 0;           ///< what F keeps under re-materialisation when no edge feeds it
  Bytes weights = 0;         ///< one version of the weights
  Bytes cloned_weights = 0;  ///< of clones that stand beside them from start to end; 0: versions as needed
  Bytes gradients = 0;       ///< held from the first B or W after a STEP to the next STEP
  Bytes optimizer_state = 0;
  Bytes transient = 0;           ///< held while an F, B, I, W or R runs
  Bytes recomputed_at_once = 0;  ///< the part of `transient` that I and W count among `recomputed`

  /// What an older version takes from the STEP that replaces it to its last use.
  Bytes version_bytes() const { return cloned_weights > 0 ? 0 : weights; }

  friend bool operator==(const StageCost&, const StageCost&) = default;
};

/// Bytes of one microbatch over one stage edge.
struct EdgeCost {
  Bytes activation = 0;
  Bytes gradient = 0;

  friend bool operator==(const EdgeCost&, const EdgeCost&) = default;
};

/// What a microbatch that differs from others costs.
struct MicrobatchCost {
  std::vector<StageCost>
      stages;  ///< one a stage of the program; what no microbatch changes (STEP, weights) is equal
  std::vector<EdgeCost> edges;  ///< one an edge of the program, by its number

  friend bool operator==(const MicrobatchCost&, const MicrobatchCost&) = default;
};

/// What it takes the host of a rank to give its device one action after the other.
struct LaunchCost {
  Ns overhead_ns = 0;           ///< of each group of compute actions, SEND, RECV and collective; >= 0
  std::int32_t most_ahead = 0;  ///< compute actions given that have not ended, at most; 0: no bound

  /// Devices find everything given to them beforehand.
  bool is_free() const { return overhead_ns == 0 && most_ahead == 0; }

  friend bool operator==(const LaunchCost&, const LaunchCost&) = default;
};

/// The costs of a program's stages and edges.
struct CostTable {
  std::vector<StageCost> stages;  ///< one a stage of the program, of the mean microbatch
  std::vector<EdgeCost> edges;    ///< one an edge of the program, by its number
  /// Empty where all microbatches are alike. Otherwise microbatch m costs what entry m mod size() says;
  /// size() divides the program's M, so that iterations are alike.
  std::vector<MicrobatchCost> microbatches{};
  std::int32_t slices = 1;  ///< of a microbatch, each with the same share of its costs
  LaunchCost launch{};      ///< on every rank

  bool microbatches_differ() const { return !microbatches.empty(); }
  /// Of the action's stage in its microbatch; the mean where it has none.
  const StageCost& stage_of(const Action& action) const;
  /// The entry of `microbatches` that holds for the unit. Requires that they differ and unit >= 0.
  const MicrobatchCost& of_unit(std::int32_t unit) const;

  friend bool operator==(const CostTable&, const CostTable&) = default;
};

/// Duration of a compute action that is not part of an overlapped pair. Requires is_compute(kind).
Ns duration_ns(const StageCost& cost, ActionKind kind);
/// Duration of the overlapped pair of the two leaves: the larger overlapped_pair_ns of their stages,
/// or the sum of the leaves where neither stage states one.
Ns pair_duration_ns(const CostTable& costs, const Action& first, const Action& second);
/// Duration of a group of overlapped compute actions: of one its own, of two their pair's, of more their sum.
Ns group_duration_ns(const CostTable& costs, std::span<const Action> group);
/// Bytes of a SEND or RECV of the program that the edges are of. Throws std::logic_error where the table has
/// not one entry an edge.
Bytes transfer_bytes(const CostTable& costs, const EdgeNumbers& edges, const Action& transfer);

/// transfer_bytes() of many transfers of one rank: what the last one of each kind took, the next mostly does.
class TransferSizes {
 public:
  /// Both must outlive it.
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

/// The buffer of an UNSHARD (the stage's weights) or REDUCE_GRAD (its gradients).
Bytes collective_bytes(const CostTable& costs, const Action& collective);
/// What each member of such a collective sends, and receives, in a ring of n ranks: 2(n-1)/n of the buffer
/// where gradients are all-reduced, (n-1)/n where they are reduced and scattered (sharded) or weights
/// are gathered; rounded up.
Bytes ring_bytes(const Program& program, const CostTable& costs, const Action& collective);

/// Every stage of the program costs the same, and so does every edge; messages are empty unless given.
CostTable uniform_costs(const Program& program, const StageCost& stage, const EdgeCost& edge = {});

/// Parts in which activations are counted where no bytes are known: what a microbatch leaves on a rank's
/// whole share of the model counts so many. Divisible by 1 to 16, so that a chunk of it counts a whole
/// number.
inline constexpr Bytes kActivationParts = 720'720;
/// Returns a whole number of activations in parts; as many as 64 bits hold where it is beyond them.
constexpr Bytes amount_of_activations(Bytes activations) {
  constexpr Bytes kMost = std::numeric_limits<Bytes>::max();
  return activations > kMost / kActivationParts ? kMost : activations * kActivationParts;
}

/// F, I, W and R take 1 ms, B 2 ms; one activation is one unit of memory.
inline constexpr StageCost kUnitStage{.forward_ns = 1'000'000,
                                      .backward_ns = 2'000'000,
                                      .backward_input_ns = 1'000'000,
                                      .backward_weight_ns = 1'000'000,
                                      .recompute_ns = 1'000'000,
                                      .kept = 1};
/// Of such stages; messages are empty.
CostTable unit_costs(const Program& program);

}  // namespace penstock
