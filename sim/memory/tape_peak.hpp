#pragma once
// The memory of ranks whose messages have buffers, from one pass over their tape.

#include <optional>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/turn_tape.hpp"

namespace penstock {

/// The most bytes that each rank holds at once (MemoryOfRanks), by rank, where ListHoldings knows all
/// actions. Otherwise nothing. `experiment` has the compute program of `turns`, which has no collectives.
/// O(actions x log actions).
std::optional<std::vector<Bytes>> tape_peaks(const Experiment& experiment, const TurnTape& turns,
                                             const TapeCosts& costs);

}  // namespace penstock
