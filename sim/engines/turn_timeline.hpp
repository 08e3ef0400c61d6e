#pragma once
// The timeline of a tape that turns have written (turn_tape.hpp), without times of instructions in between.

#include "report/timeline/timeline.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/turn_tape.hpp"

namespace penstock {

/// The spans of the lowered program. Requires the tape of `program`, which has neither collectives nor
/// RESHARDs, and its costs.
Timeline timeline_of_turns(const Program& program, const TurnTape& turns, const TapeCosts& costs);

}  // namespace penstock
