#pragma once
// The start and end times of the positions and messages of a flat program. A walk or an engine predicts them,
// or a run measures them. walk_timeline.hpp of report/ makes a Timeline from them.

#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Times in separate vectors, because a walk writes starts and ends one after the other.
struct ProgramTimes {
  /// The start of each compute action and RESHARD, with the index of its position.
  std::vector<Ns> start;
  /// The end of each compute action and RESHARD, with the index of its position.
  std::vector<Ns> end;
  /// The start of each message, with the index of the message.
  std::vector<Ns> message_start;
  /// The arrival of each message, with the index of the message.
  std::vector<Ns> message_end;
};

/// Returns times with an entry for each position and message. All entries are 0.
ProgramTimes empty_times(const FlatProgram& flat);

/// Returns the latest end, or 0 if there is none.
Ns last_end(const ProgramTimes& times);

}  // namespace penstock
