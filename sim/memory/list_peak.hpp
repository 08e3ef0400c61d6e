#pragma once
// The peak memory of ranks if it follows from the order of their lists alone, whatever the times.

#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the largest number of bytes that each rank holds at once, as MemoryOfRanks computes it. Returns
/// nothing if a message has a buffer or ListHoldings does not know some action. Requires a compute program
/// and the costs of its stages.
std::optional<std::vector<Bytes>> list_peaks(const Program& program, const CostTable& costs);

}  // namespace penstock
