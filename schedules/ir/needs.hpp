#pragma once
// What an action needs before it can run and what it gives, in one place for all that read a program: passes,
// checks, engines, memory, executor. With K stages in a chain, stage s:
//
//          needs                                    gives
//   F      the activation of s-1                    the activation for s+1
//   B, I   the gradient of s+1                      the gradient for s-1
//   W      (what I left on the stage)               B, W: the gradient of the weights
//   R      early: nothing; late: the gradient       (what F dropped)
//
//   F, B, I, W, R wait for the UNSHARD before them, STEP for the REDUCE_GRAD before it.
//   Of `kept` bytes F (with re-materialisation R) charges all, B releases all, I and W a part each.
//   A weight version is there from the STEP that makes it to its last use, the newest until it is replaced.
//
// Predicates of a kind alone (makes_weight_gradient, ...) are in action.hpp.

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

// --- along stage edges -------------------------------------------------------------------------------------

/// What stages hand each other for one microbatch.
enum class Flow : std::uint8_t {
  activation,  // along a stage edge
  gradient,    // against it
};

/// What an action takes in from neighbouring stages.
constexpr std::optional<Flow> input_of(ActionKind kind, RecomputeTiming recompute) {
  if (kind == ActionKind::forward) return Flow::activation;
  const bool late = kind == ActionKind::recompute && recompute == RecomputeTiming::late;
  return makes_input_gradient(kind) || late ? std::optional(Flow::gradient) : std::nullopt;
}
/// What an action hands on to neighbouring stages.
constexpr std::optional<Flow> output_of(ActionKind kind) {
  if (kind == ActionKind::forward) return Flow::activation;
  return makes_input_gradient(kind) ? std::optional(Flow::gradient) : std::nullopt;
}

/// The stages that `stage` gets an activation or gradient from, ascending.
inline const std::vector<std::int32_t>& givers_of(const StageNeighbours& neighbours, std::int32_t stage,
                                                  Flow flow) {
  const auto& givers = flow == Flow::activation ? neighbours.predecessors : neighbours.successors;
  return givers[index(stage)];
}
/// The stages that get one from `stage`, ascending.
inline const std::vector<std::int32_t>& takers_of(const StageNeighbours& neighbours, std::int32_t stage,
                                                  Flow flow) {
  const auto& takers = flow == Flow::activation ? neighbours.successors : neighbours.predecessors;
  return takers[index(stage)];
}

// --- messages ----------------------------------------------------------------------------------------------

/// What one stage hands another for one microbatch; a SEND and a RECV where they are on different ranks.
struct StageMessage {
  Flow flow = Flow::activation;
  std::int32_t from = 0;  ///< stages
  std::int32_t to = 0;
  std::int32_t microbatch = 0;

  friend auto operator<=>(const StageMessage&, const StageMessage&) = default;
};

/// What a kind of SEND or RECV moves. Requires is_transfer(kind).
constexpr Flow flow_of(ActionKind kind) {
  const bool activation = kind == ActionKind::send_forward || kind == ActionKind::recv_forward;
  return activation ? Flow::activation : Flow::gradient;
}
// A transfer is named by the stage at its own end, and a gradient flows against its edge a>b:
//
//   aSEND_F ---- activation ---> bRECV_F
//   aRECV_B <---- gradient ----- bSEND_B

/// Requires a SEND or RECV.
constexpr StageMessage message_of(const Action& transfer) {
  const bool sends = is_send(transfer.kind);
  return {.flow = flow_of(transfer.kind),
          .from = sends ? transfer.stage : transfer.peer,
          .to = sends ? transfer.peer : transfer.stage,
          .microbatch = transfer.microbatch};
}
/// The stage edge that it belongs to: gradients go against theirs.
constexpr StageEdge edge_of(const StageMessage& message) {
  const bool along = message.flow == Flow::activation;
  return {.from = along ? message.from : message.to, .to = along ? message.to : message.from};
}
constexpr Action send_of(const StageMessage& message) {
  const bool activation = message.flow == Flow::activation;
  return {.kind = activation ? ActionKind::send_forward : ActionKind::send_backward,
          .stage = message.from,
          .microbatch = message.microbatch,
          .peer = message.to};
}
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
/// Where parts of sums add up, a gradient that is still being reduced is in the place where the next one is
/// made.
inline constexpr std::array kBeforeWeightGradient = {ActionKind::unshard, ActionKind::reduce_grad};

/// Returns the kinds of collectives of its stage for which an action of a program of that sharding waits, for
/// the last one of each kind before it on its rank.
constexpr std::span<const ActionKind> collectives_before(ActionKind kind, std::int32_t sharding) {
  if (kind == ActionKind::step) return kBeforeStep;
  if (makes_weight_gradient(kind) && sharding > 1) return kBeforeWeightGradient;
  return has_weight_version(kind) ? std::span<const ActionKind>(kBeforeUse) : std::span<const ActionKind>();
}

// --- activations -------------------------------------------------------------------------------------------

/// How many of the `kept` bytes that F charged an action of the microbatch's backward releases; 0 for others.
Bytes released_activations(const StageCost& cost, ActionKind kind);
/// Bytes that I charges when it starts and W releases when it ends, for these two kinds; 0 for others.
Bytes recomputed_activations(const StageCost& cost, ActionKind kind);
/// Bytes that an F, B, I, W or R holds beside activations while it runs.
Bytes transient_bytes(const StageCost& cost, ActionKind kind);

// --- weight versions ---------------------------------------------------------------------------------------

/// Stands for "none" among positions of a list.
inline constexpr std::int32_t kNoPosition = -1;

/// One version of a stage's weights on one rank, as positions in the rank's list.
struct VersionLife {
  std::int32_t made_by = kNoPosition;      ///< a STEP; none for the first version
  std::int32_t replaced_by = kNoPosition;  ///< the next STEP; none for the newest version
  std::int32_t last_used_by = kNoPosition;

  bool is_used_after_its_replacement() const {
    return replaced_by != kNoPosition && last_used_by > replaced_by;
  }
  /// Behind which action the version can go; none for the newest version.
  std::int32_t dropped_by() const { return is_used_after_its_replacement() ? last_used_by : replaced_by; }

  friend bool operator==(const VersionLife&, const VersionLife&) = default;
};

/// The versions of one stage on one rank, gathered from the rank's actions of that stage in their order.
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
  /// By version: as many as STEPs have been noted, and the first one.
  const std::vector<VersionLife>& all() const { return lives_; }

 private:
  std::vector<VersionLife> lives_{VersionLife{}};
};

}  // namespace penstock
