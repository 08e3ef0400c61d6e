#pragma once
// A flat program as the event engine reads and writes it: all that one event needs lies together. Private to
// event_engine.cpp.

#include <cstdint>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "sim/network/flow_network.hpp"

namespace penstock {

/// Of a message: its end is not known yet.
inline constexpr Ns kUnknown = -1;

/// A position at which program order does something: every one, but for transfers where these do not block
/// it.
struct EventStep {
  Ns duration_ns = 0;  // of a compute action
  Ns start_ns = 0;
  std::int32_t position = 0;
  std::int32_t message =
      kNone;  // of a collective, barrier or transfer; the first that a compute action waits for
  std::int32_t more_waits = kNone;  // of a compute action: the position of the next one, as next_wait has it
  std::int32_t first_send = kNone;  // of a compute action: a transfer that waits for it, the first of a list
  FlatOp op = FlatOp::compute;
};

struct alignas(64) EventMessage {
  Ns latency_ns = 0;  // of a transfer
  Ns start_ns = 0;
  Ns end_ns = kUnknown;
  Bytes bytes = 0;
  std::int32_t missing = 0;         // what its start waits for; from then on its flows under way
  std::int32_t flow_class = kNone;  // of a transfer
  std::int32_t next_at_sender = kNone;
  std::int32_t next_at_receiver = kNone;
  std::int32_t next_send = kNone;  // of the same compute action
  std::int32_t to_rank = 0;        // of a transfer
};

struct EventState {
  std::vector<EventStep> steps;
  std::vector<std::int32_t> rank_begin;  // those of rank r are [rank_begin[r], rank_begin[r + 1])
  std::vector<EventMessage> messages;
};

/// The state before anything has happened. Classes of flows are those of `network`.
EventState event_state(const FlatProgram& flat, const WalkDurations& durations, bool blocking,
                       FlowNetwork& network);

/// What has happened.
ProgramTimes times_of(const EventState& state, const FlatProgram& flat);

}  // namespace penstock
