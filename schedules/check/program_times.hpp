#pragma once
// When the positions and messages of a flat program began and ended: what a walk or an engine predicts, and
// what a run has measured. walk_timeline.hpp of report/ makes a Timeline of it.

#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

struct ProgramTimes {
  std::vector<Ns> start;  ///< by position: of compute actions and RESHARDs
  std::vector<Ns> end;
  std::vector<Ns> message_start;  ///< by message
  std::vector<Ns> message_end;    ///< by message: arrival
};

/// Room for the times of all positions and messages, all 0.
ProgramTimes empty_times(const FlatProgram& flat);

/// The last end of all; 0 when there is nothing.
Ns last_end(const ProgramTimes& times);

}  // namespace penstock
