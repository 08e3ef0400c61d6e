#pragma once
// Draws memory over time, one chart per rank. The memory categories are stacked, and a line marks the
// device's capacity.

#include <cstddef>
#include <vector>

#include "report/print/chart_svg.hpp"
#include "report/result/result.hpp"

namespace penstock {

/// Divides the time up to `end_ns` into `slots` equal slices, and returns at most two samples for each slice.
/// They are the largest and the last sample of the slice, so no peak is lost.
std::vector<MemorySample> thinned(const std::vector<MemorySample>& samples, Ns end_ns, std::size_t slots);

/// Returns a chart for each rank that has samples. All charts have the same axes, and time goes from 0 to the
/// end of the run. The title always states the capacity. Its line is drawn only if it is not far above all
/// peaks.
std::vector<Chart> memory_charts(const Result& result);

}  // namespace penstock
