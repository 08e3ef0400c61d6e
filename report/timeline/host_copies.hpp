#pragma once
// Finds the time for which an activation is in the memory of the host, from the OFFLOADs and RELOADs of a
// rank.
//
//   rank     0F0--0F1--0F2--...0B0====
//   sends       |SEND_F0|                      the activation leaves the device at the end of OFFLOAD0, but
//   copies      |OFF0-|     |RELOAD0|          not before its SEND has ended; RELOAD0 charges it again
//   device   |----------|   |---------|
//
// The memory of ranks (sim/memory) and the number of live activations (metrics.cpp) use it. Tests:
// tests/sim/offload_test.cpp.

#include <cstdint>
#include <map>
#include <utility>

#include "report/timeline/spans.hpp"

namespace penstock {

/// The stay of one activation on the host, between two positions in the rank's spans.
struct HostStay {
  std::int32_t released_by = -1;  ///< the OFFLOAD, or a SEND_F of the activation if one ends later
  std::int32_t reload = -1;       ///< -1 if no RELOAD follows
};

/// The stays of a rank's activations on the host, by stage and unit (a microbatch, or a slice of one).
using HostStays = std::map<std::pair<std::int32_t, std::int32_t>, HostStay>;

/// Returns the stays of all activations that the rank offloads.
HostStays host_stays(Spans spans);

}  // namespace penstock
