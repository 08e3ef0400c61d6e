#pragma once
// Writes reports as HTML pages. Styles, pictures and scripts are inside the page, so it needs no other file.

#include <string>

#include "report/result/result.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {

/// Returns the page of one result: its main figures, timeline, memory over time, and tables. In the timeline,
/// the wheel with Ctrl or Shift zooms, and dragging moves the view.
std::string result_to_html(const Result& result);

/// Returns the page of a sweep. It shows the best configurations and, for each schedule, throughput and
/// bubble against M with one curve per K. A map shows which shapes fit in memory. Tables list the skipped
/// points with reasons, and all points.
std::string sweep_to_html(const Sweep& sweep);

}  // namespace penstock
