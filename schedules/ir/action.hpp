#pragma once
// Defines Action, one instruction of a program, and its text form. A Program (program.hpp) has one list of
// actions for each rank.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// A time or a duration in integer nanoseconds. All of schedules/, sim/ and report/ use it.
using Ns = std::int64_t;
/// A size in bytes.
using Bytes = std::int64_t;

/// The kinds of actions, with the letters of PyTorch (torch.distributed.pipelining). The kinds that use a
/// weight version come first, because has_weight_version() depends on this order.
enum class ActionKind : std::uint8_t {
  forward,             // F
  backward,            // B, full backward
  backward_input,      // I, gradient for the stage's input only
  backward_weight,     // W, gradient for the stage's weights only
  recompute,           // R, computes the forward again from the stored stage input
  send_forward,        // SEND_F, named by the sending stage
  recv_forward,        // RECV_F, named by the receiving stage
  send_backward,       // SEND_B, named by the sending stage
  recv_backward,       // RECV_B, named by the receiving stage
  unshard,             // UNSHARD, all-gather of a sharded stage's weights
  reshard,             // RESHARD, drops the gathered weights again
  reduce_grad,         // REDUCE_GRAD, gradient reduction over the stage's replica group
  step,                // STEP, the optimizer's update of one stage
  wait_send_forward,   // WAIT_SEND_F, waits until the SEND_Fs of a microbatch have ended
  wait_send_backward,  // WAIT_SEND_B, waits until the SEND_Bs of a microbatch have ended
  wait_reduce_grad,    // WAIT_REDUCE_GRAD, waits until the stage's last REDUCE_GRAD has ended
  offload,             // OFFLOAD, copies what F has kept of a microbatch to the memory of the host
  reload,              // RELOAD, copies it back to the device
};

/// The number of kinds. Tables that have an entry for each kind have this length.
inline constexpr std::size_t kActionKindCount = static_cast<std::size_t>(ActionKind::reload) + 1;

/// The microbatch number that stands for "none". Actions of a whole stage have it: UNSHARD, RESHARD,
/// REDUCE_GRAD, WAIT_REDUCE_GRAD and STEP.
inline constexpr std::int32_t kNoMicrobatch = -1;
/// The peer number that stands for "none". Actions that move no data between stages have it.
inline constexpr std::int32_t kNoPeer = -1;

/// One action of a rank's list: a kind, a stage and a microbatch. An overlapped pair `(0F5;3B2)OVERLAP_F_B`
/// is stored as two adjacent actions, and the first has `overlaps_next`. Both actions start and end
/// together. The same flag joins the SENDs and RECVs of a group of transfers `(0SEND_F1;0RECV_B0)GROUP`,
/// which are posted together. If the word is GROUP_NOWAIT, all of them have `no_wait`.
struct Action {
  ActionKind kind = ActionKind::forward;
  bool overlaps_next = false;
  /// True for the transfers of a group at which the rank does not wait: it posts them and goes on.
  bool no_wait = false;
  std::int32_t stage = 0;
  std::int32_t microbatch = kNoMicrobatch;
  /// The stage at the other end of a SEND or RECV; kNoPeer for other kinds.
  std::int32_t peer = kNoPeer;
  /// The weight version that an F, B, I, W or R uses. It is the number of STEPs of the stage since the
  /// program's start.
  std::int32_t weight_version = 0;

  friend auto operator<=>(const Action&, const Action&) = default;
};

/// Returns the letters of a kind: "F", "SEND_B", "REDUCE_GRAD", ...
std::string_view letters(ActionKind kind);
/// Returns the kind that `text` spells, or nothing if no kind has these letters.
std::optional<ActionKind> kind_of_letters(std::string_view text);

/// Returns true for SEND_F and SEND_B.
constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::send_forward || kind == ActionKind::send_backward;
}
/// Returns true for RECV_F and RECV_B.
constexpr bool is_recv(ActionKind kind) {
  return kind == ActionKind::recv_forward || kind == ActionKind::recv_backward;
}
/// Returns true for SEND_F, RECV_F, SEND_B and RECV_B.
constexpr bool is_transfer(ActionKind kind) { return is_send(kind) || is_recv(kind); }
/// Returns true for UNSHARD and REDUCE_GRAD, in which every rank that holds the stage takes part.
constexpr bool is_collective(ActionKind kind) {
  return kind == ActionKind::unshard || kind == ActionKind::reduce_grad;
}
/// Returns true for UNSHARD and RESHARD, which gather and drop the full weights of a sharded stage.
constexpr bool gathers_or_drops(ActionKind kind) {
  return kind == ActionKind::unshard || kind == ActionKind::reshard;
}
/// Returns true for OFFLOAD and RELOAD, which copy an activation between a device and its host.
constexpr bool is_host_copy(ActionKind kind) {
  return kind == ActionKind::offload || kind == ActionKind::reload;
}
/// Returns true for WAIT_SEND_F and WAIT_SEND_B.
constexpr bool is_send_wait(ActionKind kind) {
  return kind == ActionKind::wait_send_forward || kind == ActionKind::wait_send_backward;
}
/// Returns true for WAIT_SEND_F, WAIT_SEND_B and WAIT_REDUCE_GRAD. At these actions, a rank waits for
/// communication that it has started before.
constexpr bool is_wait(ActionKind kind) { return is_send_wait(kind) || kind == ActionKind::wait_reduce_grad; }
/// Returns the kind of action for which a WAIT waits: SEND_F, SEND_B or REDUCE_GRAD. Requires is_wait(kind).
constexpr ActionKind awaited_kind(ActionKind kind) {
  if (kind == ActionKind::wait_reduce_grad) return ActionKind::reduce_grad;
  return kind == ActionKind::wait_send_forward ? ActionKind::send_forward : ActionKind::send_backward;
}
/// Returns true for B, I and W.
constexpr bool is_backward(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input ||
         kind == ActionKind::backward_weight;
}
/// Returns true for B and I, which compute the gradient for the stage's input. Earlier stages wait for it.
constexpr bool makes_input_gradient(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}
/// Returns true for B and W, which compute the gradient of the stage's weights. Each is the last action of
/// its microbatch on the stage.
constexpr bool makes_weight_gradient(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_weight;
}
/// Returns true for F, B, I, W and R, which run with the weights of one version.
constexpr bool has_weight_version(ActionKind kind) { return kind <= ActionKind::recompute; }
/// Returns true for F, B, I, W, R and STEP, which run on a rank's compute queue.
constexpr bool is_compute(ActionKind kind) { return has_weight_version(kind) || kind == ActionKind::step; }
/// Returns true for F, B, I, W, R, SEND, RECV, WAIT_SEND, OFFLOAD and RELOAD, which name a microbatch. The
/// other kinds belong to the whole stage.
constexpr bool has_microbatch(ActionKind kind) {
  return has_weight_version(kind) || is_transfer(kind) || is_send_wait(kind) || is_host_copy(kind);
}
/// Returns the stage at the other end of a SEND or RECV, if the stages form a chain. It is stage + 1 for
/// SEND_F and RECV_B, and stage - 1 for RECV_F and SEND_B. Returns nothing for all other kinds.
std::optional<std::int32_t> chain_peer(ActionKind kind, std::int32_t stage);

/// Returns true if `position` holds a single action or the first action of an overlapped group.
constexpr bool opens_group(std::span<const Action> list, std::size_t position) {
  return position == 0 || !list[position - 1].overlaps_next;
}
/// Returns the position after the overlapped group, or after the single action, at `position`.
constexpr std::size_t group_end(std::span<const Action> list, std::size_t position) {
  while (list[position].overlaps_next && position + 1 < list.size()) ++position;
  return position + 1;
}

/// Returns the word that the text of a group ends with: OVERLAP_F_B, GROUP or GROUP_NOWAIT, as in
/// "(0F5;3B2)OVERLAP_F_B" and "(0SEND_F1;0RECV_B0)GROUP". `action` is an action of the group.
constexpr std::string_view group_word(const Action& action) {
  if (!is_transfer(action.kind)) return "OVERLAP_F_B";
  return action.no_wait ? "GROUP_NOWAIT" : "GROUP";
}

/// Returns true if the action at `position` belongs to a group of transfers that the list states.
constexpr bool is_grouped_transfer(std::span<const Action> list, std::size_t position) {
  return is_transfer(list[position].kind) &&
         (list[position].overlaps_next || (position > 0 && list[position - 1].overlaps_next));
}

/// Returns the text of an action: stage, letters and microbatch, such as "0F3", "1SEND_F3" or "0STEP". The
/// peer is added only if it is not the neighbouring stage: "2SEND_F3>4", "4RECV_F3<2". The text does not show
/// the weight version or the overlapped partner.
std::string to_text(const Action& action);

}  // namespace penstock
