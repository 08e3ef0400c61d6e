// The lanes for x86-64 processors with AVX2, whose vectors hold four times; the maximum is a comparison and a
// blend. CMake gives this source the processor's flags, and no other.

#include "sim/engines/lane_loop.hpp"
#include "sim/engines/lane_run.hpp"

namespace penstock {

void run_lanes_avx2(const LaneRun& run) { run_loop(run); }

}  // namespace penstock
