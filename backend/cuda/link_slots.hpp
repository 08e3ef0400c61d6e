#pragma once
// Computes the number of receive buffers ("slots") for each ordered pair of ranks. More than one message may
// be in flight, because threads run ahead of their GPUs. The computation needs no GPU.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"

namespace penstock {

struct LinkSlots {
  using Edge = std::pair<std::int32_t, std::int32_t>;  // (sending rank, receiving rank)
  std::map<Edge, std::int32_t> count;                  ///< number of buffers at the receiver, for each edge
  std::vector<std::int32_t> slot;                      ///< the buffer of each message; kNone for collectives
  std::vector<std::int32_t> next;  ///< for each message, the next message in the same buffer, or kNone
};

/// Returns a number of slots that is sufficient to avoid deadlock. Threads wait for a free slot before they
/// enqueue a message, so too few slots could make them wait for each other. Requires a program that does not
/// hang on directed channels.
LinkSlots link_slots(const FlatProgram& flat);

}  // namespace penstock
