#pragma once
// When everything happens in a flat program under the rendezvous rules that the simulator and the backend
// share. channel_check.cpp asks whether it ends, the critical_path engine of sim/ reads the times.

#include <cstdint>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// How long things take in the walk. All vectors may be empty, which means 0 everywhere.
struct WalkDurations {
  std::vector<Ns> compute;  ///< by position; of a group at its first leaf
  std::vector<Ns> hold;     ///< by message: how long it occupies its channel
  std::vector<Ns> latency;  ///< by message: added after that, holds nothing
  Ns launch = 0;            ///< of each action by its rank's host, where the program has launches
};

/// Walks `flat` to its end and says when everything happened, or where nothing can move any more.
/// O(positions).
///
/// Rules. A compute action starts when the compute action before it on the rank and all messages that it
/// waits for have ended. A transfer starts when its producer has ended and it heads its queue at both
/// ends; it holds both queues for `hold` and has arrived `latency` later. A collective starts when its
/// last member has reached it in program order, and holds the members' collective queues. With
/// `blocking`, program order also waits for each transfer, which starts when both ranks have reached it.
/// Where the program has launches, nothing starts before the hosts of its ranks have launched it: one action
/// after the other in list order, a compute action no earlier than the one `most_ahead` before it has ended.
tl::expected<ProgramTimes, WalkState> walk(const FlatProgram& flat, const WalkDurations& durations,
                                           const ChannelOptions& channels);

}  // namespace penstock
