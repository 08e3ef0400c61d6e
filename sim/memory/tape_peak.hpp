#pragma once
// The memory of ranks whose messages have buffers, from one pass over their tape.

#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/turn_tape.hpp"

namespace penstock {

/// The most bytes that each rank holds at once (MemoryOfRanks), by rank, where ListHoldings knows all
/// actions. Otherwise nothing. `program` is the compute program of `turns`, which has no collectives; `costs`
/// are its stages', `priced` the same for the tape. O(actions x ranks that a rank exchanges messages with).
std::optional<std::vector<Bytes>> tape_peaks(const Program& program, const CostTable& costs,
                                             const TurnTape& turns, const TapeCosts& priced);

/// The most of all ranks. Looks at the times of those alone that may be the fullest.
std::optional<Bytes> highest_tape_peak(const Program& program, const CostTable& costs, const TurnTape& turns,
                                       const TapeCosts& priced);

}  // namespace penstock
