#pragma once
// The start and end times of a flat program's positions and messages: predicted by a walk or an engine, or
// measured by a run. walk_timeline.hpp of report/ turns them into a Timeline.

#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Times in separate vectors, because walks write starts and ends one after the other.
struct ProgramTimes {
  /// The start of each compute action and RESHARD, by position.
  std::vector<Ns> start;
  /// The end of each compute action and RESHARD, by position.
  std::vector<Ns> end;
  /// The start of each message, by message.
  std::vector<Ns> message_start;
  /// The arrival of each message, by message.
  std::vector<Ns> message_end;
};

/// Returns times for all positions and messages, all 0.
ProgramTimes empty_times(const FlatProgram& flat);

/// Returns the latest end; 0 if there is none.
Ns last_end(const ProgramTimes& times);

}  // namespace penstock
