#pragma once
// The loop of evaluate.cpp for all lanes at once, with the vector types of GCC and Clang. Each source file
// that includes it is compiled for another processor family. All functions here therefore have internal
// linkage. If they were inline functions, the linker would keep only one copy of each, perhaps one that this
// processor cannot run.

#include <cstddef>
#include <cstdint>

#include "sim/engines/lane_run.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {
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
