#pragma once
// Computes the number of receive buffers ("slots") that messages need between each ordered pair of ranks.
// Threads run ahead of their GPUs, so several messages may be in flight. The computation needs no GPU.

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

/// Returns for each pair of ranks a number of slots (receive buffers) that is sufficient to avoid deadlock.
/// A thread waits for a free slot before it enqueues a message, so with too few slots threads could wait
/// for each other. Requires a program that does not hang on directed channels.
LinkSlots link_slots(const FlatProgram& flat);

}  // namespace penstock
