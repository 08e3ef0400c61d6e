
#include "schedules/ir/action.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {
namespace {

constexpr std::array<std::string_view, kActionKindCount> kLetters = {
    "F",       "B",       "I",       "W",           "R",    "SEND_F",      "RECV_F",      "SEND_B",
    "RECV_B",  "UNSHARD", "RESHARD", "REDUCE_GRAD", "STEP", "WAIT_SEND_F", "WAIT_SEND_B", "WAIT_REDUCE_GRAD",
    "OFFLOAD", "RELOAD"};
// STEP is at its index only if the list above lacks no earlier kind.
static_assert(kLetters[static_cast<std::size_t>(ActionKind::step)] == "STEP");

}  // namespace

std::string_view letters(ActionKind kind) { return kLetters[static_cast<std::size_t>(kind)]; }

std::optional<ActionKind> kind_of_letters(std::string_view text) {
  const auto* const found = std::ranges::find(kLetters, text);
  if (found == kLetters.end()) return std::nullopt;
  return static_cast<ActionKind>(found - kLetters.begin());
}

std::optional<std::int32_t> chain_peer(ActionKind kind, std::int32_t stage) {
  switch (kind) {
    case ActionKind::send_forward:
    case ActionKind::recv_backward:
      return stage + 1;
    case ActionKind::recv_forward:
    case ActionKind::send_backward:
      return stage - 1;
    case ActionKind::forward:
    case ActionKind::backward:
    case ActionKind::backward_input:
    case ActionKind::backward_weight:
    case ActionKind::recompute:
    case ActionKind::unshard:
    case ActionKind::reshard:
    case ActionKind::reduce_grad:
    case ActionKind::step:
    case ActionKind::wait_send_forward:
    case ActionKind::wait_send_backward:
    case ActionKind::wait_reduce_grad:
    case ActionKind::offload:
    case ActionKind::reload:
      return std::nullopt;
  }
  return std::nullopt;
}

std::string to_text(const Action& action) {
  std::string text = std::to_string(action.stage);
  text += letters(action.kind);
  if (has_microbatch(action.kind)) text += std::to_string(action.microbatch);
  // The text shows the peer of a SEND or RECV only if the peer is not the neighbouring stage. PyTorch's form
  // shows no peer and means the neighbouring stage.
  const auto neighbour = chain_peer(action.kind, action.stage);
  if (neighbour && action.peer != *neighbour) {
    text += is_send(action.kind) ? '>' : '<';
    text += std::to_string(action.peer);
  }
  return text;
}

}  // namespace penstock
