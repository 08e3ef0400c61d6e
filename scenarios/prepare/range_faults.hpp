#pragma once
// What keeps the times and bytes of a run out of 64 bits.

#include <optional>
#include <string>

#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"

namespace penstock {

// --- byte range ------------------------------------------------------------------------------------------

/// Returns why the bytes that ranks hold and send do not fit into 64 bits, with what takes most; nothing
/// where they do. `costs` are those of the program.
std::optional<std::string> byte_fault(const Program& program, const CostTable& costs);

// --- time range ------------------------------------------------------------------------------------------

/// Returns why the times of a run do not fit into 64 bits, with the action or message that takes most;
/// nothing where they do. A program has each compute action of a stage and microbatch once, so that no list
/// is read. `costs` are those of the program.
std::optional<std::string> time_fault(const Program& program, const CostTable& costs, const Cluster& cluster);

}  // namespace penstock
