#pragma once
// Reads actions from text: `0F0 (0F5;3B2@1)OVERLAP_F_B 2SEND_F3>4`. program_text.hpp and pytorch_csv.hpp use
// it. to_text() in action.hpp writes actions.

#include <cstdint>
#include <limits>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/text/text_cursor.hpp"

namespace penstock {

/// The form of the text. It determines which actions the text may contain.
enum class ActionForm : std::uint8_t {
  penstock,  // any number of actions between blanks, with weight versions and named peers
  pytorch,   // one action or overlapped group, without R, STEP, versions and peers
};

/// The form of a text, and the stages that it may name.
struct ActionLimits {
  ActionForm form = ActionForm::penstock;
  /// The number of stages. A stage number that is not smaller is an error.
  std::int32_t stages = std::numeric_limits<std::int32_t>::max();
};

/// Returns the actions of `text`. Returns none if `text` is blank. A SEND or RECV without a peer gets the
/// neighbouring stage as its peer.
tl::expected<std::vector<Action>, TextFault> read_actions(std::string_view text, const ActionLimits& limits);

}  // namespace penstock
