// The arrays of a flat program and its durations, transposed. Events of hundreds of ranks alternate, so their
// data is rarely in the cache. With ten separate arrays, each event would wait for ten cache lines.

#include "sim/engines/event_state.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "sim/network/flow_network.hpp"

namespace penstock {
namespace {

/// Returns true for positions that advance() must process. Leaves run with their group. Transfers that do not
/// block start from the end of a compute action (first_send) or from the start of the run.
bool is_step(FlatOp op, bool blocking) {
  return op != FlatOp::leaf && (blocking || (op != FlatOp::send && op != FlatOp::recv));
}

EventStep step_of(const FlatProgram& flat, const WalkDurations& durations, std::int32_t position) {
  EventStep step{
      .position = position, .message = flat.message[index(position)], .op = flat.ops[index(position)]};
  if (step.op != FlatOp::compute) return step;
  step.duration_ns = durations.compute[index(position)];
  // Usually a compute action waits for at most one message, so the step stores the first one.
  const std::int32_t wait = flat.next_wait[index(position)];
  if (wait == kNone) return step;
  step.message = flat.message[index(wait)];
  step.more_waits = flat.next_wait[index(wait)];
  return step;
}

EventMessage message_of(const FlatMessage& message, Ns latency_ns, FlowNetwork& network) {
  const bool is_transfer = message.recv != kNone;
  return {.latency_ns = latency_ns,
          .bytes = message.bytes,
          .missing = message.pending,
          .flow_class = is_transfer ? network.class_of(message.from_rank, message.to_rank) : kNone,
          .next_at_sender = message.next_at_sender,
          .next_at_receiver = message.next_at_receiver,
          .to_rank = message.to_rank};
}

/// Links the transfers to the compute actions that produce them.
void join_sends(EventState& state, const FlatProgram& flat) {
  std::vector<std::int32_t> first_send(flat.ops.size(), kNone);
  for (std::size_t id = 0; id < flat.messages.size(); ++id) {
    const std::int32_t producer = flat.messages[id].producer;
    if (producer == kNone) continue;
    state.messages[id].next_send = std::exchange(first_send[index(producer)], static_cast<std::int32_t>(id));
  }
  for (EventStep& step : state.steps) step.first_send = first_send[index(step.position)];
}

}  // namespace

EventState event_state(const FlatProgram& flat, const WalkDurations& durations, bool blocking,
                       FlowNetwork& network) {
  EventState state;
  state.steps.reserve(flat.ops.size());
  for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
    state.rank_begin.push_back(static_cast<std::int32_t>(state.steps.size()));
    for (std::int32_t p = flat.rank_begin[index(rank)]; p < flat.rank_begin[index(rank) + 1]; ++p) {
      if (is_step(flat.ops[index(p)], blocking)) state.steps.push_back(step_of(flat, durations, p));
    }
  }
  state.rank_begin.push_back(static_cast<std::int32_t>(state.steps.size()));
  state.messages.reserve(flat.messages.size());
  for (std::size_t id = 0; id < flat.messages.size(); ++id)
    state.messages.push_back(message_of(flat.messages[id], durations.latency[id], network));
  if (!blocking) join_sends(state, flat);
  return state;
}

ProgramTimes times_of(const EventState& state, const FlatProgram& flat) {
  ProgramTimes times = empty_times(flat);
  for (const EventStep& step : state.steps) {
    const bool computes = step.op == FlatOp::compute;
    // All leaves of a group have its times. The times of messages are stored by message number, so their
    // positions have none.
    const std::int32_t after = computes ? flat.group_end(step.position) : step.position + 1;
    for (std::int32_t p = step.position; (computes || step.op == FlatOp::reshard) && p < after; ++p) {
      times.start[index(p)] = step.start_ns;
      times.end[index(p)] = step.start_ns + step.duration_ns;
    }
  }
  for (std::size_t id = 0; id < state.messages.size(); ++id) {
    times.message_start[id] = state.messages[id].start_ns;
    times.message_end[id] = state.messages[id].end_ns;
  }
  return times;
}

}  // namespace penstock
