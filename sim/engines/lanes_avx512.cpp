// The vector code for x86-64 processors with AVX-512. A vector contains eight times, and one instruction
// computes a maximum. CMake gives the AVX-512 flags only to this source file.

#include "sim/engines/lane_loop.hpp"

namespace penstock {

void run_lanes_avx512(const LaneRun& run) { run_loop(run); }

}  // namespace penstock
