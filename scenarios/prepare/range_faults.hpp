#pragma once
// Checks that the times and bytes of a run fit in 64 bits.

#include <optional>
#include <string>

#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"

namespace penstock {

// --- byte range ------------------------------------------------------------------------------------------

/// Returns an error message if the bytes that ranks hold and send may exceed 64 bits. The message names the
/// largest part. Returns nothing if they fit. `costs` must be the costs of the program.
std::optional<std::string> byte_fault(const Program& program, const CostTable& costs);

// --- time range ------------------------------------------------------------------------------------------

/// Returns an error message if the times of a run may exceed 64 bits. The message names the action or message
/// with the largest total. Returns nothing if they fit. The lists are not read, because each compute action
/// of a stage and microbatch occurs once. `costs` must be the costs of the program.
std::optional<std::string> time_fault(const Program& program, const CostTable& costs, const Cluster& cluster);

}  // namespace penstock
