#pragma once
// The input of the vector code, and its functions for each processor family. Used only in sim/engines.
// lanes.cpp chooses the function. lanes.cpp, lanes_avx2.cpp and lanes_avx512.cpp each compile this file for
// their processors.

#include <cstddef>
#include <cstdint>

#include "schedules/ir/action.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// A link class with its times in all lanes. `hold_ns` is the time that a message occupies its queues, and
/// `latency_ns` the time until it arrives. If the pass does not follow queues, `latency_ns` includes
/// `hold_ns`, because only the arrival matters.
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
  /// True if `durations` has kLanes times for each instruction, false if it has kLanes times for each
  /// duration class.
  bool is_stream = false;
  const Ns* durations = nullptr;  ///< aligned to kLaneBytes, like `registers`
  const LaneLink* links = nullptr;
  Ns* registers = nullptr;  ///< kLanes times for each register
};

void run_lanes_portable(const LaneRun& run);
void run_lanes_avx2(const LaneRun& run);
void run_lanes_avx512(const LaneRun& run);

// The loop of evaluate.cpp for all lanes at once, with the vector types of GCC and Clang. Each source file
// that includes it is compiled for another processor family. All functions here therefore have internal
// linkage. If they were inline functions, the linker would keep only one copy of each, perhaps one that this
// processor cannot run.

namespace {

using Lanes = std::int64_t __attribute__((vector_size(kLaneBytes), may_alias));

template <QueuesFollowed kQueues, bool kIsStream, class Step>
void loop(const Step* code, const LaneRun& run) {
  const auto* durations = reinterpret_cast<const Lanes*>(run.durations);
  auto* v = reinterpret_cast<Lanes*>(run.registers);
  for (std::size_t i = 0; i < run.size; ++i) {
    const Step& step = code[i];
    const Lanes first = v[step.a];
    const Lanes second = v[step.b];
    const Lanes x = (first > second ? first : second) + durations[kIsStream ? i : step.duration];
    v[step.a] = x;
    const LaneLink& link = run.links[step.link];
    Lanes y = x;
    if constexpr (kQueues != QueuesFollowed::none) {
      const Lanes sender = v[link.c];
      y = y > sender ? y : sender;
    }
    if constexpr (kQueues == QueuesFollowed::both_ends) {
      const Lanes receiver = v[link.e];
      y = y > receiver ? y : receiver;
    }
    if constexpr (kQueues != QueuesFollowed::none) y += *reinterpret_cast<const Lanes*>(link.hold_ns);
    if constexpr (kQueues != QueuesFollowed::none) v[link.c] = y;
    if constexpr (kQueues == QueuesFollowed::both_ends) v[link.e] = y;
    v[step.d] = y + *reinterpret_cast<const Lanes*>(link.latency_ns);
  }
}

template <QueuesFollowed kQueues, bool kIsStream>
void loop_over(const LaneRun& run) {
  if (run.narrow != nullptr) {
    loop<kQueues, kIsStream>(run.narrow, run);
  } else {
    loop<kQueues, kIsStream>(run.wide, run);
  }
}

template <QueuesFollowed kQueues>
void loop_with(const LaneRun& run) {
  run.is_stream ? loop_over<kQueues, true>(run) : loop_over<kQueues, false>(run);
}

inline void run_loop(const LaneRun& run) {
  switch (run.queues) {
    case QueuesFollowed::none:
      return loop_with<QueuesFollowed::none>(run);
    case QueuesFollowed::one_end:
      return loop_with<QueuesFollowed::one_end>(run);
    case QueuesFollowed::both_ends:
      return loop_with<QueuesFollowed::both_ends>(run);
  }
}

}  // namespace

}  // namespace penstock
