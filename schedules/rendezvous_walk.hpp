#pragma once
// Executes a flat program step by step under the rendezvous rules that the simulator and the backend share:
// the one place where program order, queues and waiting are decided. channel_check.cpp asks whether the
// walk ends, the critical_path engine of sim/ reads the times.

#include <cstdint>
#include <vector>

#include "schedules/flat_program.hpp"

namespace penstock {

/// How long things take in the walk. All vectors may be empty, which means 0 everywhere.
struct WalkDurations {
  std::vector<Ns> compute;  ///< by position; of a group at its first leaf
  std::vector<Ns> hold;     ///< by message: how long it occupies its channel
  std::vector<Ns> latency;  ///< by message: added after that, holds nothing
};

/// Where a walk came to, and when everything happened.
///
/// Rules. A compute action starts when the compute action before it on the rank and all messages that it
/// waits for have ended. A transfer starts when its producer has ended and it heads its queue at both
/// ends; it holds both queues for `hold` and has arrived `latency` later. A collective starts when its
/// last member has reached it in program order, and holds the members' collective queues. With
/// `blocking`, program order also waits for each transfer, which starts when both ranks have reached it.
struct Walk {
  bool finished = false;              ///< false: the program hangs
  std::vector<std::int32_t> cursor;   ///< by rank: the position that it could not pass, or its list's end
  std::vector<std::int32_t> pending;  ///< by message: 0 when it could start
  std::vector<Ns> start;              ///< by position of compute actions
  std::vector<Ns> end;
  std::vector<Ns> message_start;  ///< by message
  std::vector<Ns> message_end;    ///< by message: arrival
};

/// Walks `flat` to its end or until nothing can move. O(positions).
Walk walk(const FlatProgram& flat, const WalkDurations& durations, const ChannelOptions& channels);

}  // namespace penstock
