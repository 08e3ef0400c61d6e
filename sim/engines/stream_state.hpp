#pragma once
// What a streamed walk (stream.cpp) knows of each rank and stage while it goes.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"

namespace penstock {

/// From when to when something that an action waited for was under way.
struct Interval {
  Ns start_ns = 0;
  Ns end_ns = 0;
};

/// How much of [from, to) some of the intervals cover.
inline Ns covered(std::vector<Interval>& intervals, Ns from, Ns to) {
  if (intervals.size() > 1) std::ranges::sort(intervals, {}, &Interval::start_ns);
  Ns sum = 0;
  for (const Interval& interval : intervals) {
    const Ns start = std::max(from, interval.start_ns);
    const Ns end = std::min(to, interval.end_ns);
    if (end <= start) continue;
    sum += end - start;
    from = end;
  }
  return sum;
}

struct RankState {
  Ns clock_ns = 0;
  Ns collectives_ns = 0;      ///< its last collective has ended
  std::int64_t position = 0;  ///< of its list with all messages, how much is placed
  Ns busy_ns = 0;
  Ns exposed_ns = 0;
  std::int64_t actions = 0;  ///< compute actions
  std::optional<Ns> first_ns;
  std::vector<std::int32_t> senders;  ///< ranks that may send to it
};

/// A stage on one of the ranks that hold it.
struct HeldStage {
  std::int32_t rank = 0;
  Interval reduction;  ///< the last one of its gradients
  std::int64_t reductions = 0;
  LoopCursor next;    ///< at the first F behind what has run, or before that
  LoopCursor newest;  ///< at the first one of the newest version that has been asked for, or before that
};

/// A collective whose members come one after the other.
struct Gathering {
  std::vector<std::int32_t> members;
  Ns start_ns = 0;
};

}  // namespace penstock
