#pragma once
// Writes reports as HTML pages. Styles, pictures and scripts are inside each page, so it needs no other file.

#include <cstddef>
#include <string>
#include <vector>

#include "report/compare/compare.hpp"
#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "report/result/sweep_table.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A section that a command adds to the page of a result: a heading, lines of text, and a table.
struct PageSection {
  std::string title;
  std::vector<std::string> lines{};
  Table table{};  ///< table of the section; it has no rows if the section has only text
};

/// Returns the page of one result: its main figures, the sections `first`, the causes of its idle time, its
/// timeline, and tables. `why` is null if the idle time is not explained.
std::string result_to_html(const Result& result, const Explanation* why = nullptr,
                           const std::vector<PageSection>& first = {});

/// Returns the page of a sweep. It shows the best configurations. For each schedule, it shows throughput
/// and bubble against M, with one curve for each K. It also shows a map of the shapes that fit into memory.
/// Tables list all points, and the skipped points with the reasons. If the sweep has the bills of the best
/// point and of the runner-up, a table shows them.
std::string sweep_to_html(const Sweep& sweep);

/// The explanations of the two runs that are compared. A null pointer means that a run is not explained.
struct ExplainedPair {
  const Explanation* predicted = nullptr;
  const Explanation* measured = nullptr;
};

/// Returns the page of one comparison. It shows the verdict, the figures, both timelines on one time axis,
/// and the errors by rank and by kind. Pointing at an action shows its predicted and its measured times.
/// `pair` holds the two compared results.
std::string comparison_to_html(const Comparison& comparison, const ResultPair& pair,
                               const ExplainedPair& why = {});

/// Returns the page of several comparisons. It shows the ranking, and then the timelines of each pair.
/// Requires one pair for each comparison, in the same order.
std::string comparisons_to_html(const std::vector<Comparison>& comparisons,
                                const std::vector<ResultPair>& pairs, const Ranking& ranking);

// Writes the viewer of a page, which shows the timelines of one or two runs on a canvas, with their idle
// intervals and their memory. report/web/viewer.js draws it in the browser.

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
