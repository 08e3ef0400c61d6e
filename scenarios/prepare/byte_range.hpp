#pragma once
// Whether all bytes of a run fit the 64 bits that count them. Used by experiment.cpp; times: time_range.hpp.

#include <optional>
#include <string>

#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Why not, with what takes most; nothing where they do. `costs` are those of the program.
std::optional<std::string> byte_fault(const Program& program, const CostTable& costs);

}  // namespace penstock
