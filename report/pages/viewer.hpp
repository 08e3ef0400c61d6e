#pragma once
// Makes the viewer of a page: the timelines of one or two runs on a canvas, with their idle intervals and
// their memory. report/web/viewer.js draws it in the browser.

#include <cstddef>
#include <string>
#include <vector>

#include "report/result/result.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The largest number of compute actions that a viewer holds. Of a longer run it holds the beginning and the
/// end.
inline constexpr std::size_t kMostViewedActions = 400'000;

/// A run that a viewer shows.
struct ViewedRun {
  std::string name{};  ///< "predicted" or "measured" if the viewer shows two runs, otherwise empty
  const Result* result = nullptr;
  const Explanation* why = nullptr;  ///< null: the viewer shows idle time without its causes
};

/// Returns the runs as a compressed text in base64, which viewer.js reads.
std::string packed_runs(const std::vector<ViewedRun>& runs, std::size_t most_actions = kMostViewedActions);

/// Returns the viewer as HTML: the packed runs, and a picture for browsers that cannot show them. Returns a
/// note if a run has no timeline. Each rank has a row for each run.
std::string viewer_html(const std::vector<ViewedRun>& runs);

/// Divides the time up to `end_ns` into `slots` equal slices, and returns at most two samples for each slice.
/// They are the largest and the last sample of the slice, so no peak is lost.
std::vector<MemorySample> thinned(const std::vector<MemorySample>& samples, Ns end_ns, std::size_t slots);

}  // namespace penstock
