#pragma once
// Reads actions from text, such as `0F0 (0F5;3B2@1)OVERLAP_F_B 2SEND_F3>4`. program_text.hpp and
// pytorch_csv.hpp use this reader for their lists. to_text() in action.hpp writes actions.

#include <cstdint>
#include <limits>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/text/text_cursor.hpp"

namespace penstock {

/// The form in which actions are written. It determines which actions a text may contain.
enum class ActionForm : std::uint8_t {
  penstock,  // any number of actions between blanks, with weight versions and named peers
  pytorch,   // one action or overlapped group, without R, STEP, versions and peers
};

/// The form of a text of actions, and the stages that it may name.
struct ActionLimits {
  ActionForm form = ActionForm::penstock;
  /// The number of stages. The stage number of an action must be smaller.
  std::int32_t stages = std::numeric_limits<std::int32_t>::max();
};

/// Returns the actions of `text`, or an empty list if `text` is blank. If a SEND or RECV names no peer, its
/// peer is the neighbouring stage.
tl::expected<std::vector<Action>, TextFault> read_actions(std::string_view text, const ActionLimits& limits);

}  // namespace penstock
