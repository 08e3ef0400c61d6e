#pragma once
// The result of every engine, predicted or measured: the time at which each action of each rank ran.
// metrics.hpp and all exporters read it.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// The time of one action on one rank. The leaves of an overlapped pair are two spans with equal times. The
/// span of a SEND or RECV is its transfer, from its start to its arrival.
struct Span {
  std::int32_t rank = 0;
  /// The action. Its microbatch number and weight version continue over iterations.
  Action action;
  /// The replica of the action's stage that this rank holds.
  std::int32_t replica = 0;
  Ns start_ns = 0;
  Ns end_ns = 0;

  friend bool operator==(const Span&, const Span&) = default;
};

/// The spans of all ranks, rank by rank in program order. The makespan is the time from the first start, 0,
/// to the last end of any action.
struct Timeline {
  std::int32_t rank_count = 0;
  Ns makespan_ns = 0;
  std::vector<Span> spans;

  friend bool operator==(const Timeline&, const Timeline&) = default;
};

}  // namespace penstock
