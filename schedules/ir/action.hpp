#pragma once
// One instruction of the schedule IR, and its text form. A Program (program.hpp) is lists of these.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// Time and durations: integer nanoseconds everywhere in schedules/, sim/ and report/.
using Ns = std::int64_t;
/// Sizes in bytes.
using Bytes = std::int64_t;

/// What an action does. The letters are PyTorch's (torch.distributed.pipelining). The order counts: those
/// that run with a weight version come first.
enum class ActionKind : std::uint8_t {
  forward,          // F
  backward,         // B, full backward
  backward_input,   // I, gradient for the stage's input only
  backward_weight,  // W, gradient for the stage's weights only
  recompute,        // R, forward again from the kept stage input
  send_forward,     // SEND_F, named by the sending stage
  recv_forward,     // RECV_F, named by the receiving stage
  send_backward,    // SEND_B, named by the sending stage
  recv_backward,    // RECV_B, named by the receiving stage
  unshard,          // UNSHARD, all-gather of a sharded stage's weights
  reshard,          // RESHARD, drops the gathered weights again
  reduce_grad,      // REDUCE_GRAD, gradient reduction over the stage's replica group
  step,             // STEP, the optimizer's update of one stage
};

/// The microbatch of actions that belong to a whole stage: UNSHARD, RESHARD, REDUCE_GRAD and STEP.
inline constexpr std::int32_t kNoMicrobatch = -1;
/// The peer of actions that move nothing between stages.
inline constexpr std::int32_t kNoPeer = -1;

/// A kind, a stage and a microbatch. An overlapped pair `(0F5;3B2)OVERLAP_F_B` is two neighbouring
/// actions of a list, the first of which has `overlaps_next`: both start and end together.
struct Action {
  ActionKind kind = ActionKind::forward;
  bool overlaps_next = false;
  std::int32_t stage = 0;
  std::int32_t microbatch = kNoMicrobatch;
  std::int32_t peer = kNoPeer;      ///< SEND and RECV: the stage at the other end
  std::int32_t weight_version = 0;  ///< F, B, I, W, R: STEPs of the stage since the program's start

  friend auto operator<=>(const Action&, const Action&) = default;
};

/// "F", "SEND_B", "REDUCE_GRAD", ...
std::string_view letters(ActionKind kind);
/// The kind that `text` spells, or nothing.
std::optional<ActionKind> kind_of_letters(std::string_view text);

/// SEND_F, SEND_B.
constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::send_forward || kind == ActionKind::send_backward;
}
/// RECV_F, RECV_B.
constexpr bool is_recv(ActionKind kind) {
  return kind == ActionKind::recv_forward || kind == ActionKind::recv_backward;
}
/// SEND_F, SEND_B, RECV_F, RECV_B.
constexpr bool is_transfer(ActionKind kind) { return is_send(kind) || is_recv(kind); }
/// UNSHARD, REDUCE_GRAD: every rank that holds the stage takes part.
constexpr bool is_collective(ActionKind kind) {
  return kind == ActionKind::unshard || kind == ActionKind::reduce_grad;
}
/// UNSHARD, RESHARD: the whole of a sharded stage's weights comes, and goes again.
constexpr bool gathers_or_drops(ActionKind kind) {
  return kind == ActionKind::unshard || kind == ActionKind::reshard;
}
/// B, I, W.
constexpr bool is_backward(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input ||
         kind == ActionKind::backward_weight;
}
/// B, I: the gradient for the stage's input, which the stages before wait for.
constexpr bool makes_input_gradient(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}
/// B, W: the gradient of the stage's weights. With it the microbatch has left the stage.
constexpr bool makes_weight_gradient(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_weight;
}
/// F, B, I, W, R: run with the weights of one version.
constexpr bool has_weight_version(ActionKind kind) { return kind <= ActionKind::recompute; }
/// F, B, I, W, R, STEP: what runs on a rank's compute queue.
constexpr bool is_compute(ActionKind kind) { return has_weight_version(kind) || kind == ActionKind::step; }
/// F, B, I, W, R, SEND and RECV name a microbatch; the others belong to the stage.
constexpr bool has_microbatch(ActionKind kind) { return has_weight_version(kind) || is_transfer(kind); }
/// The stage at the other end of a SEND or RECV in a chain of stages: SEND_F and RECV_B stage + 1, RECV_F
/// and SEND_B stage - 1. Nothing for the other kinds.
std::optional<std::int32_t> chain_peer(ActionKind kind, std::int32_t stage);

/// True for an action that stands alone and for the first one of an overlapped group.
constexpr bool opens_group(std::span<const Action> list, std::size_t position) {
  return position == 0 || !list[position - 1].overlaps_next;
}
/// One past the overlapped group, or the lone action, that `position` belongs to.
constexpr std::size_t group_end(std::span<const Action> list, std::size_t position) {
  while (list[position].overlaps_next && position + 1 < list.size()) ++position;
  return position + 1;
}

/// "0F3", "1SEND_F3", "2SEND_F3>4" where the peer is not the neighbour in the chain, "0STEP".
/// Neither the weight version nor an overlapped partner shows.
std::string to_text(const Action& action);

}  // namespace penstock
