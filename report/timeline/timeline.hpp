#pragma once
// What every engine returns, predicted or measured: when each action of each rank ran. Read by
// metrics.hpp and by all exporters.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// One action's time on one rank. The leaves of an overlapped pair are two spans with equal times.
/// A SEND or RECV spans its transfer, from its start to its arrival.
struct Span {
  std::int32_t rank = 0;
  Action action;             ///< microbatch numbers and weight versions run on over iterations
  std::int32_t replica = 0;  ///< of the action's stage, on this rank
  Ns start_ns = 0;
  Ns end_ns = 0;

  friend bool operator==(const Span&, const Span&) = default;
};

/// The spans of all ranks, rank by rank in program order, and the time from the first start (0) to
/// the last end of any action.
struct Timeline {
  std::int32_t rank_count = 0;
  Ns makespan_ns = 0;
  std::vector<Span> spans;

  friend bool operator==(const Timeline&, const Timeline&) = default;
};

}  // namespace penstock
