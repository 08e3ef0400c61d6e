#pragma once
// A timeline drawn with characters, for `penstock show`.

#include <cstdint>
#include <optional>
#include <string>

#include "report/print/palette.hpp"
#include "report/timeline/timeline.hpp"

namespace penstock {

/// The options of a picture.
struct TimelineTextOptions {
  /// The width of a whole line; values below 40 count as 40.
  std::int32_t columns = 100;
  /// The colours, set by ANSI escapes. The picture shows the same facts without them.
  TerminalColours colours = TerminalColours::none;
};

/// Returns the picture: a row for each rank with time from left to right, a time axis and a legend. Idle time
/// is '.', or '+' while the rank's gradients are reduced and '^' while its weights are gathered. If the
/// shortest action has room, each box shows its letter and microbatch ("F3-", "B3==="), with the stage in
/// front if a rank holds several. If the labels do not fit but all times are multiples of a unit with its own
/// column, microbatches are on a line below the letters. Otherwise a column shows the action that has most of
/// its time.
std::string timeline_to_text(const Timeline& timeline, const TimelineTextOptions& options = {});

/// Returns the number of columns in which every action that takes time would be visible. Returns nothing if a
/// line of `columns` shows all of them.
std::optional<std::int64_t> columns_for_every_action(const Timeline& timeline, std::int32_t columns);

}  // namespace penstock
