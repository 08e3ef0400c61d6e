// The lanes for x86-64 processors with AVX-512, whose vectors hold eight times and have a maximum of their
// own. CMake gives this source the processor's flags, and no other.

#include "sim/engines/lane_loop.hpp"
#include "sim/engines/lane_run.hpp"

namespace penstock {

void run_lanes_avx512(const LaneRun& run) { run_loop(run); }

}  // namespace penstock
