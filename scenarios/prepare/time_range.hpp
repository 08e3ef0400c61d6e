#pragma once
// Whether all times of a run fit the 64 bits that count its nanoseconds. Used by
// program_prices.cpp, and where costs of another cut are put into a program.

#include <optional>
#include <string>

#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// Why not, with the action or message that takes most; nothing where they do. A program has each compute
/// action of a stage and microbatch once, so that no list is read. `costs` are those of the program.
std::optional<std::string> time_fault(const Program& program, const CostTable& costs, const Cluster& cluster);

}  // namespace penstock
