#pragma once
// Draws a timeline with characters, for `penstock show`. timeline_svg.hpp draws a picture for pages
// instead.

#include <cstdint>
#include <optional>
#include <string>

#include "report/print/palette.hpp"
#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_window.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The options of a text timeline.
struct TimelineTextOptions {
  /// The width of a whole line in characters. Values below 40 count as 40.
  std::int32_t columns = 100;
  /// The colours that the terminal can show, selected by ANSI escapes. A picture without colours contains
  /// the same information.
  TerminalColours colours = TerminalColours::none;
  /// The part of the run that the picture shows.
  TimelineWindow window{};
};

/// Returns the picture: a line for each rank, a time axis and a legend. Time goes from left to right. Idle
/// time is '.'. It is '+' while the rank's gradients are reduced, and '^' while its weights are gathered. If
/// there is room, each box shows its letter and microbatch ("F3-", "B3==="). If a rank holds several stages,
/// the stage comes first ("2F3"). If the labels do not fit but the scale is exact, the microbatches are on a
/// line below the letters. Otherwise each column shows the action that takes most of its time.
std::string timeline_to_text(const Timeline& timeline, const TimelineTextOptions& options = {});

/// Returns the number of columns that a line needs to show every action that takes time. Returns nothing if
/// `columns` columns are enough.
std::optional<std::int64_t> columns_for_every_action(const Timeline& timeline, std::int32_t columns,
                                                     const TimelineWindow& window = {});

/// Returns the program as a table in text form. Row k shows the k-th entry of each rank's list. An
/// overlapped pair is one entry.
std::string action_grid(const Program& program);

}  // namespace penstock
