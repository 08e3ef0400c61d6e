#pragma once
// Selects the part of a run that a picture shows: some of its ranks, from one time to another.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_boxes.hpp"

namespace penstock {

/// A part of a timeline. The default is the whole run with all ranks.
struct TimelineWindow {
  Ns from_ns = 0;
  /// The end of the window. If it is later than the run, the window ends with the run.
  Ns to_ns = std::numeric_limits<Ns>::max();
  /// The ranks to show, in this order. If the list is empty, all ranks are shown. Requires ranks of the run.
  std::vector<std::int32_t> ranks{};

  bool shows_all() const { return from_ns == 0 && to_ns == std::numeric_limits<Ns>::max() && ranks.empty(); }
  /// Returns the name of a row of the picture: "rank 3".
  std::string name_of(std::size_t row) const;

  friend bool operator==(const TimelineWindow&, const TimelineWindow&) = default;
};

/// Returns the timeline of the window. It has all spans that are at least partly inside the window, and does
/// not cut them. Rank i of the result is row i of the window. The result ends where the window ends.
Timeline part_of(const Timeline& timeline, const TimelineWindow& window);

/// Moves the times of the boxes so that the window begins at 0. Cuts the boxes that reach over one of the
/// two ends of the window. `to_ns` is the end of the window.
void cut_to_window(std::vector<std::vector<ComputeBox>>& ranks, Ns from_ns, Ns to_ns);

/// Returns the ticks of a time axis from `from_ns` to `to_ns`. They are multiples of a nice step (see
/// nice_step()), at most `most` + 1 of them.
std::vector<Ns> ticks_between(Ns from_ns, Ns to_ns, int most);

}  // namespace penstock
