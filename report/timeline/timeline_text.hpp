#pragma once
// A timeline drawn with characters, for `penstock show`.

#include <cstdint>
#include <optional>
#include <string>

#include "report/print/palette.hpp"
#include "report/timeline/timeline.hpp"

namespace penstock {

struct TimelineTextOptions {
  std::int32_t columns = 100;  ///< of a whole line; at least 40 are used
  /// By ANSI escapes; the picture reads the same without.
  TerminalColours colours = TerminalColours::none;
};

/// A row a rank, time from left to right, '.' where a rank idles ('+' while its gradients are reduced, '^'
/// while its weights are gathered), a time axis and a legend. Where the shortest action has room, a box is
/// its letter and microbatch ("F3-", "B3==="; with the stage in front where a rank holds several). Where all
/// times are multiples of a unit that gets a column, the microbatches stand on a line of their own under the
/// letters. Otherwise a column shows what takes most of its time.
std::string timeline_to_text(const Timeline& timeline, const TimelineTextOptions& options = {});

/// Where some columns of a line of `columns` stand for several actions: how many columns show every action
/// that takes time. Nothing where all are shown already.
std::optional<std::int64_t> columns_for_every_action(const Timeline& timeline, std::int32_t columns);

}  // namespace penstock
