#pragma once
// The memory of ranks whose peak follows from the order of their lists alone, whatever the times.

#include <optional>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The most bytes that each rank holds at once (MemoryOfRanks), by rank, where no message has a buffer and
/// ListHoldings knows all actions. Otherwise nothing. `experiment` has a compute program.
std::optional<std::vector<Bytes>> list_peaks(const Experiment& experiment);

}  // namespace penstock
