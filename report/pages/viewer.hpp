#pragma once
// Writes the viewer of a page, which shows the timelines of one or two runs on a canvas, with their idle
// intervals and their memory. report/web/viewer.js draws it in the browser.

#include <cstddef>
#include <string>
#include <vector>

#include "report/result/result.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The largest number of compute actions that a viewer holds. If a run has more, the viewer holds only its
/// first and its last ones.
inline constexpr std::size_t kMostViewedActions = 400'000;

/// A run that a viewer shows.
struct ViewedRun {
  std::string name{};  ///< "predicted" or "measured" if the viewer shows two runs, otherwise empty
  const Result* result = nullptr;
  const Explanation* why = nullptr;  ///< null: the viewer shows idle time without its causes
};

/// Returns the runs as compressed data in base64, which viewer.js reads.
std::string packed_runs(const std::vector<ViewedRun>& runs, std::size_t most_actions = kMostViewedActions);

/// Returns the viewer as HTML: the packed runs, and a picture for browsers that cannot show them. In the
/// viewer, each rank has one row for each run. If a run has no timeline, returns a note instead.
std::string viewer_html(const std::vector<ViewedRun>& runs);

/// Returns fewer memory samples that still show every peak. It divides the time up to `end_ns` into `slots`
/// equal slices. For each slice, it keeps the largest and the last sample.
std::vector<MemorySample> thinned(const std::vector<MemorySample>& samples, Ns end_ns, std::size_t slots);

}  // namespace penstock
