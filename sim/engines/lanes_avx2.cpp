// The vector code for x86-64 processors with AVX2. A vector contains four times, and a maximum needs two
// instructions, a comparison and a blend. CMake gives the AVX2 flags only to this source file.

#include "sim/engines/lane_loop.hpp"

namespace penstock {

void run_lanes_avx2(const LaneRun& run) { run_loop(run); }

}  // namespace penstock
