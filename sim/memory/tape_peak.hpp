#pragma once
// The peak memory of ranks that have message buffers, computed in one pass over the tape.

#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/turn_tape.hpp"

namespace penstock {

/// Returns the largest number of bytes that each rank holds at once, as MemoryOfRanks computes it. Returns
/// nothing if ListHoldings does not know some action. `turns` is the tape of the compute program `program`,
/// without collectives. `costs` are the costs of its stages, and `priced` the costs of the tape. Takes
/// O(actions x ranks with which a rank exchanges messages).
std::optional<std::vector<Bytes>> tape_peaks(const Program& program, const CostTable& costs,
                                             const TurnTape& turns, const TapeCosts& priced);

/// Returns the highest peak of all ranks. It examines in full only the ranks that may have the highest peak.
std::optional<Bytes> highest_tape_peak(const Program& program, const CostTable& costs, const TurnTape& turns,
                                       const TapeCosts& priced);

}  // namespace penstock
