#pragma once
// Memory over time: one chart a rank with the categories stacked and the device's capacity as a line.

#include <cstddef>
#include <vector>

#include "report/print/chart_svg.hpp"
#include "report/result/result.hpp"

namespace penstock {

/// At most two samples for each of `slots` equal slices of the time up to `end_ns`: the largest and the
/// last. Several samples at one time become the largest and the last too, so no peak is lost.
std::vector<MemorySample> thinned(const std::vector<MemorySample>& samples, Ns end_ns, std::size_t slots);

/// A chart for each rank that has samples, all with the same axes; time goes from 0 to the makespan. The
/// capacity is drawn where it is not far above all peaks, and is in the title anyway.
std::vector<Chart> memory_charts(const Result& result);

}  // namespace penstock
