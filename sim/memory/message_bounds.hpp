#pragma once
// An upper bound of the bytes in message buffers, computed without sorting all changes by time.

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/turn_tape.hpp"

namespace penstock {

/// Returns for each rank a number of bytes that its send and receive buffers together never exceed. `turns`
/// is the tape of the compute program `program`, and `times` are the times of its instructions. Takes
/// O(actions).
std::vector<Bytes> most_of_messages(const Program& program, const CostTable& costs, const TurnTape& turns,
                                    const std::vector<InstructionTimes>& times);

}  // namespace penstock
