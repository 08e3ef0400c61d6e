#pragma once
// How many messages of each directed pair may be on their way at once, when threads run ahead of their GPUs:
// a decision, without a GPU.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"

namespace penstock {

struct LinkSlots {
  using Edge = std::pair<std::int32_t, std::int32_t>;  // from rank, to rank
  std::map<Edge, std::int32_t> count;                  ///< buffers at the receiver
  std::vector<std::int32_t> slot;                      ///< by message: which of them; kNone of collectives
  std::vector<std::int32_t> next;                      ///< by message: who has the slot next; kNone: nobody
};

/// Enough that threads which wait for a slot before they give a message to its stream cannot wait in a
/// circle. Requires a program that does not hang on directed channels.
LinkSlots link_slots(const FlatProgram& flat);

}  // namespace penstock
