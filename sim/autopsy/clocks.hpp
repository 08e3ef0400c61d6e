#pragma once
// Converts the times of ranks that were recorded on several hosts to one common clock.

#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/autopsy/recording.hpp"

namespace penstock {

/// The result of align_clocks(): the remaining error, and notes.
struct AlignedClocks {
  std::optional<Ns> error_ns{};      ///< largest error of a clock; absent if the clocks were left as they are
  std::vector<std::string> notes{};  ///< a line for each clock that was moved
};

/// Computes the offsets between the ranks' clocks from the messages that they exchanged, and moves the
/// times of `rows` to one clock. Changes nothing if every message arrives after it was sent. Requires rows
/// that state their steps.
AlignedClocks align_clocks(std::vector<RecordedRow>& rows);

}  // namespace penstock
