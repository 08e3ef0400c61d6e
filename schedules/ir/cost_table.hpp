#pragma once
// The costs of actions. The engines know nothing else about the model and the devices. scenarios/ fills the
// table from stated times, profiles or calibrations. All numbers are for one microbatch, or one slice of it.
// Either all have equal costs, or each has its own (different sequence lengths, packing, images, slices that
// attend to more and more tokens).

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The durations in ns and sizes in bytes of one stage. They are at least 0 unless the comment says
/// otherwise.
struct StageCost {
  Ns forward_ns = 0;
  Ns backward_ns = 0;
  Ns backward_input_ns = 0;
  Ns backward_weight_ns = 0;
  Ns recompute_ns = 0;
  Ns step_ns = 0;
  /// The duration of an overlapped pair that has an action on this stage. -1 means that a pair takes the
  /// sum of both durations.
  Ns overlapped_pair_ns = -1;
  /// The time by which an overlapped pair of F and B of this stage is shorter than the sum of both.
  Ns pair_hidden_ns = 0;
  /// The bytes of activations that the rank stores for a microbatch from its F to its B, or to its I and W.
  Bytes kept = 0;
  /// The part of `kept` that the action I (gradient of the input) releases. The action W (gradient of the
  /// weights) releases the rest.
  Bytes released_by_input = 0;
  /// The bytes of activations that the backward pass recomputes without a separate R action. The action I
  /// allocates them, and W reads and releases them. A B stores them for only one layer at a time, and
  /// `transient` includes this layer.
  Bytes recomputed = 0;
  /// The bytes of the stage's input that F stores for recomputation, if the stage has no predecessor.
  Bytes input = 0;
  /// The bytes of one version of the stage's weights.
  Bytes weights = 0;
  /// The bytes of weight copies that exist during the whole run, in addition to the weights. 0 means that a
  /// rank allocates a weight version only when it needs it.
  Bytes cloned_weights = 0;
  /// The size of the gradients. The rank stores them from the first B or W after a STEP to the next STEP.
  Bytes gradients = 0;
  Bytes optimizer_state = 0;
  /// Bytes that the rank stores only while an F, B, I, W or R runs.
  Bytes transient = 0;
  /// The part of `transient` that holds recomputed activations while a B runs. I and W do not need it,
  /// because `recomputed` counts these activations.
  Bytes recomputed_at_once = 0;

  /// Returns the bytes that an older weight version needs, from the STEP that replaces it to its last use.
  /// Returns 0 if `cloned_weights` already counts the copies.
  Bytes version_bytes() const { return cloned_weights > 0 ? 0 : weights; }

  friend bool operator==(const StageCost&, const StageCost&) = default;
};

/// Bytes that one microbatch sends over one stage edge.
struct EdgeCost {
  Bytes activation = 0;
  Bytes gradient = 0;

  friend bool operator==(const EdgeCost&, const EdgeCost&) = default;
};

/// The costs of one microbatch, or one slice of it. It is used only if microbatches or slices have different
/// costs.
struct MicrobatchCost {
  /// The costs of each stage of the program. Costs that do not depend on the microbatch (STEP, weights) equal
  /// those of the mean microbatch.
  std::vector<StageCost> stages;
  /// The costs of each edge of the program, in the order of EdgeNumbers.
  std::vector<EdgeCost> edges;

  friend bool operator==(const MicrobatchCost&, const MicrobatchCost&) = default;
};

/// The cost for a rank's host to launch actions on its device.
struct LaunchCost {
  /// The time to launch a group of compute actions, a SEND, a RECV or a collective, at least 0.
  Ns overhead_ns = 0;
  /// The largest number of compute actions that the host may launch before the first of them has ended. 0
  /// means no limit.
  std::int32_t most_ahead = 0;

  /// Returns true if a launch takes no time and there is no limit.
  bool is_free() const { return overhead_ns == 0 && most_ahead == 0; }

  friend bool operator==(const LaunchCost&, const LaunchCost&) = default;
};

/// The connection of each rank's device to the memory of its host. OFFLOAD and RELOAD copy over it.
struct HostLink {
  /// The bandwidth in each direction, or of both directions together without `duplex`. It is greater than 0,
  /// possibly infinite.
  double bytes_per_second = std::numeric_limits<double>::infinity();
  /// The fixed time of each copy, in addition to the time for its bytes, at least 0.
  Ns latency_ns = 0;
  /// True if copies in both directions run at the same time. Otherwise the copies of a rank run one after
  /// another.
  bool duplex = true;

  friend bool operator==(const HostLink&, const HostLink&) = default;
};

/// The costs of a program's stages and edges.
struct CostTable {
  /// The costs of the mean microbatch, by stage.
  std::vector<StageCost> stages;
  /// The costs of the mean microbatch, by edge, in the order of EdgeNumbers.
  std::vector<EdgeCost> edges;
  /// The costs by unit, which is a microbatch or one of its slices. Empty if all have equal costs. Unit u has
  /// entry (u / slices) mod size(). The entries must end with an iteration of the program, so that all
  /// iterations have equal costs.
  std::vector<MicrobatchCost> microbatches{};
  /// The number of units that share an entry: the slices of a microbatch, or 1 if slices differ, too.
  std::int32_t slices = 1;
  /// The launch cost on every rank.
  LaunchCost launch{};
  /// The connection of every rank to the memory of its host.
  HostLink host{};

  bool microbatches_differ() const { return !microbatches.empty(); }
  /// Returns the costs of the action's stage for its microbatch. If the action has no microbatch, returns the
  /// costs for the mean microbatch.
  const StageCost& stage_of(const Action& action) const;
  /// Returns the entry of `microbatches` for a unit. Requires that microbatches differ and unit >= 0.
  const MicrobatchCost& of_unit(std::int32_t unit) const;

  friend bool operator==(const CostTable&, const CostTable&) = default;
};

/// Returns the duration of a compute action that is not part of an overlapped pair. Throws std::logic_error
/// for other kinds.
Ns duration_ns(const StageCost& cost, ActionKind kind);
/// Returns the duration of an overlapped pair. It is the larger overlapped_pair_ns of the two stages. If
/// neither stage states one, it is the sum of both durations minus the smaller pair_hidden_ns.
Ns pair_duration_ns(const CostTable& costs, const Action& first, const Action& second);
/// Returns the duration of a group of compute actions. A single action takes its own duration. Two actions
/// are an overlapped pair and take pair_duration_ns(). A larger group takes the sum of the durations.
Ns group_duration_ns(const CostTable& costs, std::span<const Action> group);
/// Returns the bytes that an OFFLOAD or RELOAD copies: the activations that the stage's F stores for the
/// microbatch.
Bytes host_copy_bytes(const CostTable& costs, const Action& copy);
/// Returns the bytes of a SEND or RECV. `edges` are the edges of its program. Throws std::logic_error if the
/// table does not have one entry for each edge.
Bytes transfer_bytes(const CostTable& costs, const EdgeNumbers& edges, const Action& transfer);

/// A cache for transfer_bytes() for the transfers of one rank. Successive transfers of the same kind usually
/// have equal sizes.
class TransferSizes {
 public:
  /// Creates a cache. Both arguments must outlive it.
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
  std::array<Last, 4> last_{};  // last transfer of each kind: SEND_F, RECV_F, SEND_B, RECV_B
};

/// Returns the bytes of the buffer that a collective uses. For an UNSHARD, they are the stage's weights;
/// for a REDUCE_GRAD, the stage's gradients.
Bytes collective_bytes(const CostTable& costs, const Action& collective);
/// Changes the costs of stages and edges that have no backward passes. A stage that runs only forward
/// passes has no gradients and no optimizer state. While an F runs, it needs the bytes that it would
/// otherwise keep for a backward pass. With forward_kv, these bytes stay until the run ends. If an edge
/// does not carry a flow, the flow has no bytes. Programs without such stages and edges keep their costs.
void leave_out_backwards(CostTable& costs, const Program& program);
/// Returns true if a forward-only stage gives an activation with bytes to a stage on its own rank. No message
/// transfers this activation. The rank stores it from the end of the first stage's F to the end of the second
/// stage's F.
bool holds_local_activations(const Program& program, const CostTable& costs);

/// Returns the bytes that each member of a collective sends in a ring of n ranks, rounded up. It receives
/// equally many bytes. An all-reduce of gradients (sharding 0) sends 2(n-1)/n of the buffer. A reduce-scatter
/// of gradients or an all-gather of weights sends (n-1)/n of the buffer.
Bytes ring_bytes(const Program& program, const CostTable& costs, const Action& collective);

/// Returns a table in which every stage has the costs `stage` and every edge has the costs `edge`. By
/// default, messages are empty.
CostTable uniform_costs(const Program& program, const StageCost& stage, const EdgeCost& edge = {});

/// The number of parts into which one activation is divided. If a program has no bytes, memory is counted
/// in activations. One activation is the memory of one microbatch for a rank's whole share of the model.
/// 720 720 is divisible by 1 to 16, so with up to 16 chunks each chunk has a whole number of parts.
inline constexpr Bytes kActivationParts = 720'720;
/// Returns the number of parts in `activations` activations, or the largest 64-bit number if the product is
/// larger.
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
