// The lanes for x86-64 processors with AVX2. A vector holds four times, and a maximum is a comparison and a
// blend. CMake gives the AVX2 flags only to this source file.

#include "sim/engines/lane_loop.hpp"
#include "sim/engines/lane_run.hpp"

namespace penstock {

void run_lanes_avx2(const LaneRun& run) { run_loop(run); }

}  // namespace penstock
