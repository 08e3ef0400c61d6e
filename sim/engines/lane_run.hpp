#pragma once
// What the vector code of one processor family gets, and its names. Private to sim/engines: lanes.cpp
// chooses, and lanes_portable.cpp, lanes_avx2.cpp and lanes_avx512.cpp each compile lane_loop.hpp for their
// processors.

#include <cstddef>

#include "schedules/ir/action.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// A link class with its times in all lanes. Where no queues are followed, nothing but the end of the latency
/// counts, and the hold is in it.
struct LaneLink {
  Register c = 0;
  Register e = 0;
  alignas(kLaneBytes) Ns hold_ns[kLanes] = {};
  alignas(kLaneBytes) Ns latency_ns[kLanes] = {};
};

/// One pass over a tape. Plain pointers: nothing that this vector code shares with other code may be compiled
/// for its processor.
struct LaneRun {
  const NarrowInstruction* narrow = nullptr;  ///< one of the two
  const WideInstruction* wide = nullptr;
  std::size_t size = 0;
  QueuesFollowed queues = QueuesFollowed::both_ends;
  bool is_stream = false;         ///< durations: kLanes an instruction instead of a class
  const Ns* durations = nullptr;  ///< aligned to kLaneBytes, like registers
  const LaneLink* links = nullptr;
  Ns* registers = nullptr;  ///< kLanes a register
};

void run_lanes_portable(const LaneRun& run);
void run_lanes_avx2(const LaneRun& run);
void run_lanes_avx512(const LaneRun& run);

}  // namespace penstock
