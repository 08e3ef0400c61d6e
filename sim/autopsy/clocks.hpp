#pragma once
// Puts the clocks of ranks together that were recorded on several hosts.

#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/autopsy/recording.hpp"

namespace penstock {

/// The result of align_clocks().
struct AlignedClocks {
  std::optional<Ns> error_ns{};      ///< largest error of a clock; absent if the clocks were left as they are
  std::vector<std::string> notes{};  ///< a line for each clock that was moved
};

/// Finds the offsets of clocks from messages that ranks exchange, and moves the rows to one clock. The clocks
/// are left as they are if no message arrives before it was sent. Requires rows with steps.
AlignedClocks align_clocks(std::vector<RecordedRow>& rows);

}  // namespace penstock
