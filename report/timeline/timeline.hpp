#pragma once
// The time at which each action of each rank ran, predicted or measured. Every engine produces a timeline,
// and metrics.hpp and all exporters read it.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// The start and end of one action on one rank. The two actions of an overlapped pair have equal times. The
/// span of a SEND or RECV is its transfer, from its start to its arrival.
struct Span {
  std::int32_t rank = 0;
  /// The action. Microbatch numbers and weight versions increase from iteration to iteration and do not
  /// restart.
  Action action;
  /// The replica of the action's stage that this rank holds.
  std::int32_t replica = 0;
  Ns start_ns = 0;
  Ns end_ns = 0;

  friend bool operator==(const Span&, const Span&) = default;
};

/// The spans of all ranks, rank by rank in program order. The first action starts at 0, so the makespan is
/// the last end of any action.
struct Timeline {
  std::int32_t rank_count = 0;
  Ns makespan_ns = 0;
  std::vector<Span> spans;

  friend bool operator==(const Timeline&, const Timeline&) = default;
};

}  // namespace penstock
