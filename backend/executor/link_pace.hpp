#pragma once
// What a transport on one machine pretends that the links of a cluster take. Filled from the cluster's routes
// by whoever starts a run; every transport that can emulate links takes it.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

/// How long emulated links take, by message of a FlatProgram; empty vectors mean 0 everywhere.
struct LinkPace {
  std::vector<Ns> hold;     ///< occupies the channel; of a collective its whole duration
  std::vector<Ns> latency;  ///< added after that, holds nothing
};

/// Of one of its vectors.
inline Ns pace_at(const std::vector<Ns>& times, std::int32_t message) {
  return times.empty() ? 0 : times[index(message)];
}

}  // namespace penstock
