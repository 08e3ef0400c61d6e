#pragma once
// Reports as one self-contained HTML page each: inline style, pictures and script, no other file.

#include <string>

#include "report/result/result.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {

/// Headline figures, the timeline (Ctrl or Shift with the wheel zooms, dragging moves), memory over time,
/// tables.
std::string result_to_html(const Result& result);

/// Best configurations; for each schedule throughput and bubble against M with a curve a K, and a map of what
/// fits; what was skipped and why; all rows in a table that sorts.
std::string sweep_to_html(const Sweep& sweep);

}  // namespace penstock
