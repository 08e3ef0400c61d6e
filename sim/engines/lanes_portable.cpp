// The lanes for any processor: the compiler splits a vector of eight into what the processor has.

#include "sim/engines/lane_loop.hpp"
#include "sim/engines/lane_run.hpp"

namespace penstock {

void run_lanes_portable(const LaneRun& run) { run_loop(run); }

}  // namespace penstock
