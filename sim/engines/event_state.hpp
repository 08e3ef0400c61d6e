#pragma once
// A flat program in the layout that the event engine reads and writes: the data that one event needs lies
// together. Used only by event_engine.cpp.

#include <cstdint>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "sim/network/flow_network.hpp"

namespace penstock {

/// The end of a message that has not ended.
inline constexpr Ns kUnknown = -1;

/// A position of a rank's list that the event engine processes. Leaves are no steps, and transfers are steps
/// only if channels block.
struct EventStep {
  Ns duration_ns = 0;  // duration of a compute action
  Ns start_ns = 0;
  std::int32_t position = 0;
  std::int32_t message = kNone;     // its message; for a compute action the first message that it waits for
  std::int32_t more_waits = kNone;  // compute action: position of the next message that it waits for
  std::int32_t first_send = kNone;  // compute action: first transfer that waits for it, the start of a list
  FlatOp op = FlatOp::compute;
};

struct alignas(64) EventMessage {
  Ns latency_ns = 0;  // latency of a transfer
  Ns start_ns = 0;
  Ns end_ns = kUnknown;
  Bytes bytes = 0;
  std::int32_t missing = 0;         // events that the start waits for; after the start, flows in progress
  std::int32_t flow_class = kNone;  // class of a transfer's flow
  std::int32_t next_at_sender = kNone;
  std::int32_t next_at_receiver = kNone;
  std::int32_t next_send = kNone;  // next transfer that the same compute action produces
  std::int32_t to_rank = 0;        // receiver of a transfer
};

struct EventState {
  std::vector<EventStep> steps;
  std::vector<std::int32_t> rank_begin;  // the steps of rank r are [rank_begin[r], rank_begin[r + 1])
  std::vector<EventMessage> messages;
};

/// Returns the state before the first event. The classes of flows are numbers of `network`.
EventState event_state(const FlatProgram& flat, const WalkDurations& durations, bool blocking,
                       FlowNetwork& network);

/// Returns the times of all actions and messages after a run.
ProgramTimes times_of(const EventState& state, const FlatProgram& flat);

}  // namespace penstock
