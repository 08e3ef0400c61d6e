#pragma once
// Makes the timeline of a tape from placement rounds (turn_tape.hpp) without storing the times of
// instructions.

#include "report/timeline/timeline.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/turn_tape.hpp"

namespace penstock {

/// Returns the spans of the lowered program. Requires the tape of `program` and its costs. The program must
/// have neither collectives nor RESHARDs.
Timeline timeline_of_turns(const Program& program, const TurnTape& turns, const TapeCosts& costs);

}  // namespace penstock
