#pragma once
// What buffers of messages take at most, told without putting all that a rank holds in order of time.

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/turn_tape.hpp"

namespace penstock {

/// By rank bytes that its send and receive buffers never exceed together. `program` is the compute program of
/// `turns`, whose instructions have these `times`. O(actions).
std::vector<Bytes> most_of_messages(const Program& program, const CostTable& costs, const TurnTape& turns,
                                    const std::vector<InstructionTimes>& times);

}  // namespace penstock
