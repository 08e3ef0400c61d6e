#pragma once
// The memory of ranks whose peak follows from the order of their lists alone, whatever the times.

#include <cstdint>
#include <optional>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Where what a rank holds changes in the order of its list: no message has a buffer, actions run one by one
/// and take time, and a version goes with the STEP that replaces it. `experiment` has a compute program.
bool peaks_follow_from_lists(const Experiment& experiment);

/// The most bytes that a rank of such a program holds at once (MemoryOfRanks), by rank.
std::vector<Bytes> list_peaks(const Experiment& experiment);

}  // namespace penstock
