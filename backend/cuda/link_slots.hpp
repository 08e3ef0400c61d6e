#pragma once
// Computes how many messages of each ordered pair of ranks may be in flight at once when threads run ahead of
// their GPUs. Needs no GPU.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"

namespace penstock {

struct LinkSlots {
  using Edge = std::pair<std::int32_t, std::int32_t>;  // from rank, to rank
  std::map<Edge, std::int32_t> count;                  ///< number of buffers at the receiver
  std::vector<std::int32_t> slot;  ///< by message: number of its buffer; kNone for collectives
  std::vector<std::int32_t> next;  ///< by message: the message that uses the buffer next, or kNone
};

/// Returns enough slots that threads which wait for a slot before they enqueue a message cannot wait in a
/// circle. Requires a program that does not hang on directed channels.
LinkSlots link_slots(const FlatProgram& flat);

}  // namespace penstock
