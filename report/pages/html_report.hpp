#pragma once
// Writes reports as HTML pages. Styles, pictures and scripts are inside each page, so it needs no other file.

#include <cstddef>
#include <string>
#include <vector>

#include "report/compare/compare.hpp"
#include "report/print/chart_svg.hpp"
#include "report/result/result.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {

/// Returns the page of one result: its main figures, its timeline, its memory over time, and tables. In the
/// timeline, the mouse wheel with Ctrl or Shift zooms, and dragging moves the view.
std::string result_to_html(const Result& result);

/// Returns the page of a sweep. It shows the best configurations. For each schedule it shows throughput and
/// bubble against M, with one curve for each K, and a map of the shapes that fit into memory. Tables list all
/// points, and the skipped points with reasons.
std::string sweep_to_html(const Sweep& sweep);

// Writes comparisons as HTML pages. A page needs no other file.

/// Returns the page of one comparison. It shows the verdict, the figures, both timelines on one time axis,
/// and the errors by rank and by kind. Each action's tooltip shows its predicted and its measured times.
/// `pair` holds the two compared results.
std::string comparison_to_html(const Comparison& comparison, const ResultPair& pair);

/// Returns the page of several comparisons. It shows the ranking, and then the timelines of each pair.
/// Requires one pair for each comparison, in the same order.
std::string comparisons_to_html(const std::vector<Comparison>& comparisons,
                                const std::vector<ResultPair>& pairs, const Ranking& ranking);

// Draws memory over time, one chart for each rank. The memory categories are stacked, and a line marks the
// capacity of the device.

/// Divides the time up to `end_ns` into `slots` equal slices, and returns at most two samples for each slice.
/// They are the largest and the last sample of the slice, so no peak is lost.
std::vector<MemorySample> thinned(const std::vector<MemorySample>& samples, Ns end_ns, std::size_t slots);

/// Returns a chart for each rank that has samples. All charts have the same axes, and time goes from 0 to the
/// end of the run. The title always states the capacity. The line at the capacity is drawn only if it is not
/// far above all peaks.
std::vector<Chart> memory_charts(const Result& result);

}  // namespace penstock
