#pragma once
// Reads actions from text: `0F0 (0F5;3B2@1)OVERLAP_F_B 2SEND_F3>4`. Used by program_text.hpp and
// pytorch_csv.hpp; to_text in action.hpp writes.

#include <cstdint>
#include <limits>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/text/text_cursor.hpp"

namespace penstock {

/// Which actions a text may hold.
enum class ActionForm : std::uint8_t {
  penstock,  // all, with weight versions and named peers, any number between blanks
  pytorch,   // one action or overlapped group without R, STEP, versions and peers
};

struct ActionLimits {
  ActionForm form = ActionForm::penstock;
  std::int32_t stages = std::numeric_limits<std::int32_t>::max();  ///< stages lie below this
};

/// The actions of `text`; none when it is blank. A SEND or RECV that names no peer gets its neighbour in
/// the chain.
tl::expected<std::vector<Action>, TextFault> read_actions(std::string_view text, const ActionLimits& limits);

}  // namespace penstock
