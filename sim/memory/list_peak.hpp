#pragma once
// The memory of ranks whose peak follows from the order of their lists alone, whatever the times.

#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The most bytes that each rank holds at once (MemoryOfRanks), by rank, where no message has a buffer and
/// ListHoldings knows all actions. Otherwise nothing. Requires a compute program and costs of its stages.
std::optional<std::vector<Bytes>> list_peaks(const Program& program, const CostTable& costs);

}  // namespace penstock
