#pragma once
// The times of all positions and messages of a flat program, and the walk that computes them. The walk
// follows the rendezvous rules that the simulator and the backend share.

#include <cstdint>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// The times of all positions and messages of a flat program. Starts and ends are in separate vectors,
/// because the code that computes the times writes each of them in sequence.
struct ProgramTimes {
  /// The start of each compute action and RESHARD, by position.
  std::vector<Ns> start;
  /// The end of each compute action and RESHARD, by position.
  std::vector<Ns> end;
  /// The start of each message, by message number.
  std::vector<Ns> message_start;
  /// The arrival of each message, by message number.
  std::vector<Ns> message_end;
};

/// Returns times with an entry for each position and message. All entries are 0.
ProgramTimes empty_times(const FlatProgram& flat);

/// Returns the latest end of any action or message. Returns 0 if there is none.
Ns last_end(const ProgramTimes& times);

/// The durations with which walk() runs. An empty vector means that all its durations are 0.
struct WalkDurations {
  /// The duration of each compute action, by position. A group of overlapped actions has its duration at the
  /// position of its first action.
  std::vector<Ns> compute;
  /// The time for which each message occupies its channel.
  std::vector<Ns> hold;
  /// The time from the moment when a message leaves its channel to its arrival. During this time, the
  /// message occupies no channel.
  std::vector<Ns> latency;
  /// The time that a rank's host takes to launch an action, if the program has launches.
  Ns launch = 0;
};

/// Walks through `flat` to its end and returns the times. If the walk stalls, returns the state in which it
/// stalled. Takes time in proportion to the number of positions.
/// A compute action starts when two conditions hold: the previous compute action of the rank has ended, and
/// all messages that the action waits for have ended. A transfer starts when its producer has ended and the
/// transfer is first in its queue at both ends. It occupies both queues for `hold` and arrives `latency`
/// later. A collective starts when its last member has reached it in program order. It occupies the
/// collective queues of its members. With `blocking`, a rank also waits for the end of each of its
/// transfers, or of each group of transfers. A transfer then starts when both ranks have reached it or its
/// group.
/// If the program has launches, an action starts only after the hosts of its ranks have launched it. A host
/// launches actions in list order. It launches a compute action only after the compute action `most_ahead`
/// places earlier in the list has ended.
tl::expected<ProgramTimes, WalkState> walk(const FlatProgram& flat, const WalkDurations& durations,
                                           const ChannelOptions& channels);

}  // namespace penstock
