#pragma once
// The input of the vector code, and its functions for each processor family. Used only in sim/engines.
// lanes.cpp chooses the function. lanes.cpp, lanes_avx2.cpp and lanes_avx512.cpp each compile lane_loop.hpp
// for their processors.

#include <cstddef>

#include "schedules/ir/action.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// A link class with its times in all lanes. If the pass does not follow queues, `latency_ns` includes the
/// hold, because only the arrival matters.
struct LaneLink {
  Register c = 0;
  Register e = 0;
  alignas(kLaneBytes) Ns hold_ns[kLanes] = {};
  alignas(kLaneBytes) Ns latency_ns[kLanes] = {};
};

/// The input of a vectorised pass over a tape. It has plain pointers instead of containers. Otherwise the
/// compiler could compile container functions for one processor family, and the linker might use them for
/// all.
struct LaneRun {
  const NarrowInstruction* narrow = nullptr;  ///< exactly one of `narrow` and `wide` is set
  const WideInstruction* wide = nullptr;
  std::size_t size = 0;
  QueuesFollowed queues = QueuesFollowed::both_ends;
  bool is_stream = false;  ///< true: `durations` has a line for each instruction; false: for each class
  const Ns* durations = nullptr;  ///< aligned to kLaneBytes, like `registers`
  const LaneLink* links = nullptr;
  Ns* registers = nullptr;  ///< kLanes times for each register
};

void run_lanes_portable(const LaneRun& run);
void run_lanes_avx2(const LaneRun& run);
void run_lanes_avx512(const LaneRun& run);

}  // namespace penstock
