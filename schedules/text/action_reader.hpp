#pragma once
// Reads actions from text: `0F0 (0F5;3B2@1)OVERLAP_F_B 2SEND_F3>4`. Used by program_text.hpp and
// pytorch_csv.hpp. to_text() in action.hpp writes them.

#include <cstdint>
#include <limits>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/text/text_cursor.hpp"

namespace penstock {

/// The form of the text, which determines the actions that it may hold.
enum class ActionForm : std::uint8_t {
  penstock,  // any number of actions between blanks, with weight versions and named peers
  pytorch,   // one action or overlapped group, without R, STEP, versions and peers
};

/// The form and the stages that a text is limited to.
struct ActionLimits {
  ActionForm form = ActionForm::penstock;
  /// The number of stages. A stage at or above it is an error.
  std::int32_t stages = std::numeric_limits<std::int32_t>::max();
};

/// Returns the actions of `text`, or none if it is blank. A SEND or RECV without a peer gets its neighbour in
/// the chain.
tl::expected<std::vector<Action>, TextFault> read_actions(std::string_view text, const ActionLimits& limits);

}  // namespace penstock
