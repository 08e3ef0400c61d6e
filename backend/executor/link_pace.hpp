#pragma once
// The times of emulated links. The caller of a run computes them from the cluster's routes. Each transport
// that can emulate links uses them.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

/// The times that each message of a FlatProgram takes on emulated links, by message number. An empty vector
/// means 0 for all messages.
struct LinkPace {
  /// Time for which the message occupies its channel; for a collective, its whole duration.
  std::vector<Ns> hold;
  std::vector<Ns> latency;  ///< time from the end of `hold` to the arrival, in which the channel is free
};

/// Returns the time of `message` in `times`, or 0 if `times` is empty.
inline Ns pace_at(const std::vector<Ns>& times, std::int32_t message) {
  return times.empty() ? 0 : times[index(message)];
}

}  // namespace penstock
