#pragma once
// Reports as HTML pages with inline style, pictures and scripts. A page needs no other file.

#include <string>

#include "report/result/result.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {

/// Returns the page of a result: headlines, the timeline (Ctrl or Shift with the wheel zooms, dragging
/// moves), memory over time, tables.
std::string result_to_html(const Result& result);

/// Returns the page of a sweep: the best configurations; for each schedule throughput and bubble against M
/// with a curve for each K, and a map of the shapes that fit; the skipped points with reasons; all rows in a
/// table that can be sorted.
std::string sweep_to_html(const Sweep& sweep);

}  // namespace penstock
