#pragma once
// The times of emulated links. The caller of a run fills them in from the cluster's routes. Every transport
// that can emulate links takes them.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

/// Times of emulated links for each message of a FlatProgram. Empty vectors mean 0 for all messages.
struct LinkPace {
  std::vector<Ns> hold;     ///< time that the channel is occupied; of a collective its whole duration
  std::vector<Ns> latency;  ///< time from then to the arrival; occupies nothing
};

/// Returns the time of a message from one of the vectors.
inline Ns pace_at(const std::vector<Ns>& times, std::int32_t message) {
  return times.empty() ? 0 : times[index(message)];
}

}  // namespace penstock
