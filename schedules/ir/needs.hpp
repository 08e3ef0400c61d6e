#pragma once
// Defines what an action needs before it can run and what it provides. Passes, checks, engines, the memory
// rule and the executor all use these definitions. With K stages in a chain, stage s:
//
//          needs                                    provides
//   F      the activation of s-1                    the activation for s+1
//   B, I   the gradient of s+1                      the gradient for s-1
//   W      (what I left on the stage)               B, W: the gradient of the weights
//   R      early: nothing; late: the gradient       (what F has dropped)
//
//   F, B, I, W, R wait for the UNSHARD before them, STEP for the REDUCE_GRAD before it.
//   F (with re-materialisation R) charges all `kept` bytes, B releases all, I and W release a part each.
//   I also charges the `recomputed` bytes, and W releases them.
//   A weight version exists from the STEP that makes it to its last use, the newest one until it is replaced.
//
// Predicates of a kind alone (makes_weight_gradient, ...) are in action.hpp.

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

// --- along stage edges -------------------------------------------------------------------------------------

/// The kind of data that one stage sends to another for one microbatch.
enum class Flow : std::uint8_t {
  activation,  // goes along a stage edge
  gradient,    // goes against the direction of a stage edge
};

/// Returns the kind of data that an action needs from neighbouring stages, or nothing if it needs none.
constexpr std::optional<Flow> input_of(ActionKind kind, RecomputeTiming recompute) {
  if (kind == ActionKind::forward) return Flow::activation;
  const bool late = kind == ActionKind::recompute && recompute == RecomputeTiming::late;
  return makes_input_gradient(kind) || late ? std::optional(Flow::gradient) : std::nullopt;
}
/// Returns the kind of data that an action sends to neighbouring stages, or nothing if it sends none.
constexpr std::optional<Flow> output_of(ActionKind kind) {
  if (kind == ActionKind::forward) return Flow::activation;
  return makes_input_gradient(kind) ? std::optional(Flow::gradient) : std::nullopt;
}

/// Returns true if microbatches send data of this kind over the edge. Gradients need backward passes on the
/// stages at both ends.
inline bool carries(const Placement& placement, const StageEdge& edge, Flow flow) {
  if (flow == Flow::activation) return edge.flows != EdgeFlows::gradient;
  return edge.flows != EdgeFlows::activation && !placement.stages[index(edge.from)].is_forward_only() &&
         !placement.stages[index(edge.to)].is_forward_only();
}

/// Returns the stages that send data of this flow to `stage`, in ascending order.
inline const std::vector<std::int32_t>& givers_of(const StageNeighbours& neighbours, std::int32_t stage,
                                                  Flow flow) {
  const auto& givers = flow == Flow::activation ? neighbours.predecessors : neighbours.gradient_givers;
  return givers[index(stage)];
}
/// Returns the stages that receive data of this flow from `stage`, in ascending order.
inline const std::vector<std::int32_t>& takers_of(const StageNeighbours& neighbours, std::int32_t stage,
                                                  Flow flow) {
  const auto& takers = flow == Flow::activation ? neighbours.successors : neighbours.gradient_takers;
  return takers[index(stage)];
}

// --- messages ----------------------------------------------------------------------------------------------

/// The data that one stage sends to another for one microbatch. If the stages are on different ranks, a SEND
/// and a RECV transfer it.
struct StageMessage {
  Flow flow = Flow::activation;
  /// The sending and the receiving stage.
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t microbatch = 0;

  friend auto operator<=>(const StageMessage&, const StageMessage&) = default;
};

/// Returns the kind of data that a SEND or RECV transfers. Requires is_transfer(kind).
constexpr Flow flow_of(ActionKind kind) {
  const bool activation = kind == ActionKind::send_forward || kind == ActionKind::recv_forward;
  return activation ? Flow::activation : Flow::gradient;
}
// The field `stage` of a transfer is the stage at its own end. A gradient goes against its edge a>b:
//
//   aSEND_F ---- activation ---> bRECV_F
//   aRECV_B <---- gradient ----- bSEND_B

/// Returns the message that a SEND or RECV transfers. Requires is_transfer(transfer.kind).
constexpr StageMessage message_of(const Action& transfer) {
  const bool sends = is_send(transfer.kind);
  return {.flow = flow_of(transfer.kind),
          .from = sends ? transfer.stage : transfer.peer,
          .to = sends ? transfer.peer : transfer.stage,
          .microbatch = transfer.microbatch};
}
/// Returns the stage edge over which a message goes. A gradient goes against the direction of the edge.
constexpr StageEdge edge_of(const StageMessage& message) {
  const bool along = message.flow == Flow::activation;
  return {.from = along ? message.from : message.to, .to = along ? message.to : message.from};
}
/// Returns the SEND of a message.
constexpr Action send_of(const StageMessage& message) {
  const bool activation = message.flow == Flow::activation;
  return {.kind = activation ? ActionKind::send_forward : ActionKind::send_backward,
          .stage = message.from,
          .microbatch = message.microbatch,
          .peer = message.to};
}
/// Returns the RECV of a message.
constexpr Action recv_of(const StageMessage& message) {
  const bool activation = message.flow == Flow::activation;
  return {.kind = activation ? ActionKind::recv_forward : ActionKind::recv_backward,
          .stage = message.to,
          .microbatch = message.microbatch,
          .peer = message.from};
}

// --- collectives -------------------------------------------------------------------------------------------

inline constexpr std::array kBeforeUse = {ActionKind::unshard};
inline constexpr std::array kBeforeStep = {ActionKind::reduce_grad};
/// The collectives that must end before a weight gradient starts under sharding 2 and 3. The gradient is
/// written to the buffer of the previous gradient, and a REDUCE_GRAD may still read this buffer.
inline constexpr std::array kBeforeWeightGradient = {ActionKind::unshard, ActionKind::reduce_grad};

/// Returns the kinds of collectives that an action waits for under the given sharding. Of each kind, it waits
/// for the last earlier collective of its own stage on its own rank.
constexpr std::span<const ActionKind> collectives_before(ActionKind kind, std::int32_t sharding) {
  if (kind == ActionKind::step) return kBeforeStep;
  if (makes_weight_gradient(kind) && sharding > 1) return kBeforeWeightGradient;
  return has_weight_version(kind) ? std::span<const ActionKind>(kBeforeUse) : std::span<const ActionKind>();
}

// --- activations -------------------------------------------------------------------------------------------

/// Returns the number of `kept` bytes that an action of this kind releases. B releases all of them, I and W
/// release a part each, and other kinds release 0.
Bytes released_activations(const StageCost& cost, ActionKind kind);
/// Returns the bytes of recomputed activations, which I allocates at its start and W releases at its end.
/// Returns 0 for other kinds.
Bytes recomputed_activations(const StageCost& cost, ActionKind kind);
/// Returns the bytes that an F, B, I, W or R needs while it runs, in addition to activations.
Bytes transient_bytes(const StageCost& cost, ActionKind kind);

// --- weight versions ---------------------------------------------------------------------------------------

/// The position that means "none" in a list.
inline constexpr std::int32_t kNoPosition = -1;

/// The life of one weight version of a stage on one rank, as positions in the rank's list.
struct VersionLife {
  /// The position of the STEP that makes the version. It is kNoPosition for the first version.
  std::int32_t made_by = kNoPosition;
  /// The position of the STEP that replaces the version. It is kNoPosition for the newest version.
  std::int32_t replaced_by = kNoPosition;
  std::int32_t last_used_by = kNoPosition;

  bool is_used_after_its_replacement() const {
    return replaced_by != kNoPosition && last_used_by > replaced_by;
  }
  /// Returns the position of the action after which the rank can drop the version, or kNoPosition for the
  /// newest version.
  std::int32_t dropped_by() const { return is_used_after_its_replacement() ? last_used_by : replaced_by; }

  friend bool operator==(const VersionLife&, const VersionLife&) = default;
};

/// The lives of all weight versions of one stage on one rank. The caller passes the rank's actions of this
/// stage to note(), in list order.
class VersionLives {
 public:
  void note(const Action& action, std::int32_t position) {
    if (action.kind == ActionKind::step) {
      lives_.back().replaced_by = position;
      lives_.push_back({.made_by = position});
    } else if (has_weight_version(action.kind) && index(action.weight_version) < lives_.size()) {
      lives_[index(action.weight_version)].last_used_by = position;
    }
  }
  /// Returns the lives of all versions: the first version, and one more for each STEP.
  const std::vector<VersionLife>& all() const { return lives_; }

 private:
  std::vector<VersionLife> lives_{VersionLife{}};
};

// Finds the queue on a rank for each end of a message, under each channel model (channel.hpp). Flat programs
// and the tapes of sim/ use these numbers.

/// One end of a message, seen from the rank at this end.
struct MessageEnd {
  std::int32_t peer_rank = 0;
  bool sends = false;
  Flow flow = Flow::activation;
  /// The number of the message's stage edge (EdgeNumbers).
  std::size_t edge = 0;
};

/// Returns the largest number of queues that one rank can have under a channel model. The program has
/// `ranks` ranks and `edges` stage edges.
constexpr std::size_t queue_count(ChannelModel model, std::int32_t ranks, std::size_t edges) {
  switch (model) {
    case ChannelModel::rank:
      return 1;
    case ChannelModel::pair:
      return index(ranks);
    case ChannelModel::direction:
      return 2;
    case ChannelModel::directed:
      return 2 * index(ranks);
    case ChannelModel::boundary:
      return 2 * edges;
  }
  return 0;
}

/// Returns the number of the queue on its rank that a message's end uses. It is below queue_count().
constexpr std::size_t queue_of(ChannelModel model, const MessageEnd& end) {
  switch (model) {
    case ChannelModel::rank:
      return 0;
    case ChannelModel::pair:
      return index(end.peer_rank);  // one queue for both directions
    case ChannelModel::direction:
      return static_cast<std::size_t>(end.flow);
    case ChannelModel::directed:
      return 2 * index(end.peer_rank) + (end.sends ? 0 : 1);  // one queue for each direction, for both flows
    case ChannelModel::boundary:
      return 2 * end.edge + static_cast<std::size_t>(end.flow);
  }
  return 0;
}

// If transfers are batched, a rank reaches a group only after its earlier groups have ended. Only messages of
// the same group can then meet in a queue. They pass side by side, except those from one rank to another,
// which share a link and follow each other:
//
//   `pair`, one group   SEND_F to rank 1    RECV_B from rank 1    both directions at the same time
//                       SEND_F to rank 1    SEND_B to rank 1      one after the other

/// Returns the largest number of queues that one rank can have under `channels`. The program has `ranks`
/// ranks and `edges` stage edges.
constexpr std::size_t queue_count(const ChannelOptions& channels, std::int32_t ranks, std::size_t edges) {
  if (channels.blocking != Blocking::batched) return queue_count(channels.model, ranks, edges);
  if (channels.model == ChannelModel::direction) return 2 * queue_count(ChannelModel::directed, ranks, edges);
  return std::max(queue_count(ChannelModel::directed, ranks, edges),
                  queue_count(ChannelModel::boundary, ranks, edges));
}

/// Returns the number of the queue on its rank that a message's end uses. It is below queue_count() for the
/// same channels.
constexpr std::size_t queue_of(const ChannelOptions& channels, const MessageEnd& end) {
  const bool is_split = channels.blocking == Blocking::batched && channels.model != ChannelModel::boundary;
  if (!is_split) return queue_of(channels.model, end);
  const std::size_t queue = queue_of(ChannelModel::directed, end);
  // In the model `direction`, activations and gradients have separate queues.
  return channels.model == ChannelModel::direction ? 2 * queue + static_cast<std::size_t>(end.flow) : queue;
}

}  // namespace penstock
