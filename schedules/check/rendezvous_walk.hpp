#pragma once
// The times of all positions and messages of a flat program under the rendezvous rules that the simulator and
// the backend share.

#include <cstdint>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// Durations for the walk. An empty vector means 0 everywhere.
struct WalkDurations {
  /// The duration of each compute position; a group has it at its first action.
  std::vector<Ns> compute;
  /// The time for which each message occupies its channel.
  std::vector<Ns> hold;
  /// The latency that is added to each message after that and occupies nothing.
  std::vector<Ns> latency;
  /// The time of a rank's host to launch each action, if the program has launches.
  Ns launch = 0;
};

/// Walks `flat` to its end and returns the times, or the state in which the walk stalled. Takes time in
/// proportion to the positions.
///
/// Rules. A compute action starts when the compute action before it on the rank and all messages that it
/// waits for have ended. A transfer starts when its producer has ended and it is first in its queue at both
/// ends. It occupies both queues for `hold` and arrives `latency` later. A collective starts when its last
/// member has reached it in program order, and it occupies the members' collective queues. With `blocking`,
/// program order also waits for each transfer, which starts when both ranks have reached it. If the program
/// has launches, nothing starts before the hosts of its ranks have launched it. A host launches actions in
/// list order, and a compute action no earlier than the end of the compute action `most_ahead` before it.
tl::expected<ProgramTimes, WalkState> walk(const FlatProgram& flat, const WalkDurations& durations,
                                           const ChannelOptions& channels);

}  // namespace penstock
