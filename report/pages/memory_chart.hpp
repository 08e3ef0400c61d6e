#pragma once
// Memory over time: a chart for each rank with the categories stacked and the device's capacity as a line.

#include <cstddef>
#include <vector>

#include "report/print/chart_svg.hpp"
#include "report/result/result.hpp"

namespace penstock {

/// Returns at most two samples for each of `slots` equal slices of the time up to `end_ns`: the largest and
/// the last of the slice. Therefore no peak is lost, also if several samples have the same time.
std::vector<MemorySample> thinned(const std::vector<MemorySample>& samples, Ns end_ns, std::size_t slots);

/// Returns a chart for each rank that has samples, all with the same axes. Time goes from 0 to the makespan.
/// The capacity is a line only if it is not far above all peaks; the title always has it.
std::vector<Chart> memory_charts(const Result& result);

}  // namespace penstock
