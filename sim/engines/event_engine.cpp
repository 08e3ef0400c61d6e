// The event engine: a clock that jumps from event to event, ordered by (time, sequence). Messages become
// ready by the rules of schedules/check/rendezvous_walk.hpp. A started message is a flow in a FlowNetwork.
// The end of the flow changes whenever another flow starts or ends on one of its links. engines.cpp chooses
// this engine if links are shared.
//
// EventState stores all data of one event side by side. In the flat program they are in ten arrays, so each
// event would load ten cache lines.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_lists.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "sim/engines/engines.hpp"
#include "sim/network/flow_network.hpp"
#include "sim/network/message_costs.hpp"
#include "topology/collective.hpp"

namespace penstock {

namespace {

/// The value of `end_ns` for a message that has not ended.
constexpr Ns kUnknown = -1;

/// A position in a rank's list at which the event engine has to do something. Leaves (later actions of a
/// group) are not steps. Transfers are steps only if they are in a group of transfers. The steps of such a
/// group are contiguous.
struct EventStep {
  Ns duration_ns = 0;  // duration of a compute action
  Ns start_ns = 0;
  std::int32_t position = 0;
  // The number of the step's message. For a compute action or a WAIT, it is the first message for which the
  // step waits.
  std::int32_t message = kNone;
  // For a compute action or a WAIT, the position of the next message that it waits for.
  std::int32_t more_waits = kNone;
  // For a compute action, the first transfer that waits for its end. EventMessage::next_send gives the
  // others.
  std::int32_t first_send = kNone;
  FlatOp op = FlatOp::compute;
};

struct alignas(64) EventMessage {
  Ns latency_ns = 0;  // latency of a transfer, or duration of a copy to or from a host
  Ns start_ns = 0;
  Ns end_ns = kUnknown;
  Bytes bytes = 0;
  // The number of events for which the message still waits. After its start, the number of its flows in
  // progress.
  std::int32_t missing = 0;
  // Index of the class of flows to which a transfer belongs; kNone for collectives and barriers.
  std::int32_t flow_class = kNone;
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

/// Returns the state before the first event. The flow classes are numbers that `network` assigns.
EventState event_state(const FlatProgram& flat, const WalkDurations& durations, FlowNetwork& network);

/// Returns the times of all actions and messages after a run.
ProgramTimes times_of(const EventState& state, const FlatProgram& flat);

/// Returns true for positions that advance() must process. The later actions of an overlapped group (leaves)
/// run with the first action of the group. A transfer outside of groups starts at the end of a compute action
/// (first_send), or at the start of the run.
bool is_step(const FlatProgram& flat, std::int32_t position) {
  const FlatOp op = flat.ops[index(position)];
  return op != FlatOp::leaf && (flat.is_grouped(position) || (op != FlatOp::send && op != FlatOp::recv));
}

EventStep step_of(const FlatProgram& flat, const WalkDurations& durations, std::int32_t position) {
  EventStep step{
      .position = position, .message = flat.message[index(position)], .op = flat.ops[index(position)]};
  if (step.op != FlatOp::compute && step.op != FlatOp::wait) return step;
  if (step.op == FlatOp::compute) step.duration_ns = durations.compute[index(position)];
  // Most compute actions wait for at most one message, so the step stores the first one.
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

/// Connects each transfer outside of groups to the compute action that produces its data.
void join_sends(EventState& state, const FlatProgram& flat) {
  std::vector<std::int32_t> first_send(flat.ops.size(), kNone);
  for (std::size_t id = 0; id < flat.messages.size(); ++id) {
    const std::int32_t producer = flat.messages[id].producer;
    if (producer == kNone || flat.is_grouped(flat.messages[id].first)) continue;
    state.messages[id].next_send = std::exchange(first_send[index(producer)], static_cast<std::int32_t>(id));
  }
  for (EventStep& step : state.steps) step.first_send = first_send[index(step.position)];
}

EventState event_state(const FlatProgram& flat, const WalkDurations& durations, FlowNetwork& network) {
  EventState state;
  state.steps.reserve(flat.ops.size());
  for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
    state.rank_begin.push_back(static_cast<std::int32_t>(state.steps.size()));
    for (std::int32_t p = flat.rank_begin[index(rank)]; p < flat.rank_begin[index(rank) + 1]; ++p) {
      if (is_step(flat, p)) state.steps.push_back(step_of(flat, durations, p));
    }
  }
  state.rank_begin.push_back(static_cast<std::int32_t>(state.steps.size()));
  state.messages.reserve(flat.messages.size());
  for (std::size_t id = 0; id < flat.messages.size(); ++id) {
    // A copy to or from a host uses no link of the network. Its whole duration is therefore known in advance,
    // and counts as latency.
    const bool is_copy = flat.is_host_copy(flat.messages[id]);
    const Ns latency_ns = is_copy ? durations.hold[id] : durations.latency[id];
    state.messages.push_back(message_of(flat.messages[id], latency_ns, network));
  }
  join_sends(state, flat);
  return state;
}

ProgramTimes times_of(const EventState& state, const FlatProgram& flat) {
  ProgramTimes times = empty_times(flat);
  for (const EventStep& step : state.steps) {
    const bool computes = step.op == FlatOp::compute;
    // All leaves of a group have the times of the group. Times of messages are stored by message number and
    // not by position.
    const std::int32_t after = computes ? flat.group_end(step.position) : step.position + 1;
    const bool has_times = computes || step.op == FlatOp::reshard || step.op == FlatOp::wait;
    for (std::int32_t p = step.position; has_times && p < after; ++p) {
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

/// An event: the end of a rank's compute action, the arrival of a message, or the end of a launch by a rank's
/// host. Events with equal times are processed in the order in which they were created.
struct Event {
  Ns time_ns = 0;
  // The order of creation. It fits into 32 bits, because it is below twice the number of positions in all
  // lists, and there are fewer than 2^31 positions.
  std::uint32_t sequence = 0;
  std::int32_t subject = 0;  // a rank, or ~message, or number of ranks + rank of a host

  bool operator>(const Event& other) const {
    return time_ns != other.time_ns ? time_ns > other.time_ns : sequence > other.sequence;
  }
};

/// One run. Each message has a count, `missing`, of events that it waits for. settle() decrements the count
/// and starts the message when the count is 0. A rank advances through its list until it has to wait, and
/// continues when the wait ends:
///
///   end_compute -> settle its SENDs -> start_flow ~ end_flow -> settle the next messages of its queues
///               -> advance          -> begin_compute ~ end_compute       wake -> advance
///
/// Time passes only at the marks ~. Everything else happens at one instant.
class EventSimulator {
 public:
  EventSimulator(const Experiment& experiment, const FlatProgram& flat, const WalkDurations& durations)
      : flat_(flat),
        has_groups_(!flat.transfer_group.empty()),
        has_followers_(has_followers(flat, experiment.channels)),
        model_(experiment.channels.model),
        network_(experiment.cluster),
        state_(event_state(flat, durations, network_)),
        cursor_(state_.rank_begin.begin(), state_.rank_begin.end() - 1),
        stands_at_(index(flat.rank_count), kNone),
        posted_(index(flat.rank_count), kNone),
        rings_(experiment),
        launch_ns_(durations.launch) {
    if (has_launch_order(experiment.channels)) order_launches();
    if (flat.has_launches) post_launches();
  }

  /// Returns the times, or nothing if the program hangs.
  std::optional<ProgramTimes> run() {
    post_transfers();
    for (std::int32_t rank = 0; order_ && rank < flat_.rank_count; ++rank) reside(rank);
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) advance(rank);
    for (std::int32_t rank = 0; flat_.has_launches && rank < flat_.rank_count; ++rank) go_on(rank);
    while (take_next()) {
    }
    if (!std::ranges::equal(cursor_, std::span(state_.rank_begin).subspan(1))) return std::nullopt;
    return times_of(state_, flat_);
  }

 private:
  EventMessage& message(std::int32_t id) { return state_.messages[index(id)]; }

  /// Posts the RECVs outside of groups at the start of the run. A SEND outside of groups is posted when its
  /// producer ends. The transfers of a group are posted when the rank reaches the group.
  void post_transfers() {
    for (std::size_t id = 0; id < flat_.messages.size(); ++id) {
      const FlatMessage& transfer = flat_.messages[id];
      if (transfer.recv == kNone) continue;
      // A SEND without a producer is posted now, because no action would post it later. An eager message
      // needs no RECV to be posted, because it does not wait for its RECV.
      if (transfer.producer == kNone && !flat_.is_grouped(transfer.first))
        settle_end(static_cast<std::int32_t>(id), transfer.first);
      // In launch order, a RECV is posted by reside().
      if (!order_ && !transfer.eager && !flat_.is_grouped(transfer.recv))
        settle(static_cast<std::int32_t>(id));
    }
  }

  bool take_next() {
    // next_end() computes the rates of all flows. So it is called only when no event of this instant is left.
    if (events_.empty() || events_.top().time_ns > now_) {
      const std::optional<Ns> flow_end = network_.next_end();
      if (!flow_end && events_.empty()) return false;
      if (flow_end && (events_.empty() || *flow_end < events_.top().time_ns)) {
        now_ = *flow_end;
        end_flow(network_.finish());
        return true;
      }
    }
    const Event event = events_.top();
    events_.pop();
    ask_early();
    now_ = event.time_ns;
    if (event.subject >= flat_.rank_count) {
      launch(event.subject - flat_.rank_count);
    } else if (event.subject >= 0) {
      end_compute(event.subject);
    } else {
      arrive(~event.subject);
    }
    return true;
  }

  /// Prefetches the data of the next event, because the events of other ranks have removed these data from
  /// the cache.
  void ask_early() const {
    if (events_.empty() || events_.top().subject < 0 || events_.top().subject >= flat_.rank_count) return;
    __builtin_prefetch(&state_.steps[index(cursor_[index(events_.top().subject)])]);
  }

  void schedule_end(Ns time, std::int32_t rank) { events_.push({time, sequence_++, rank}); }
  void schedule_arrival(Ns time, std::int32_t message) { events_.push({time, sequence_++, ~message}); }

  // --- hosts --------------------------------------------------------------------------------------

  /// Adds one to `missing` of each message that waits for a launch by a host. If operations start in launch
  /// order, launch_lists() has already counted these launches.
  void post_launches() {
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      const std::int32_t begin = flat_.rank_begin[index(rank)];
      hosts_.push_back({.at = begin});
      for (std::int32_t p = begin; p < flat_.rank_begin[index(rank) + 1]; ++p) {
        if ((!order_ || is_copy_at(p)) && launch_lets_start(p)) ++message(flat_.message[index(p)]).missing;
      }
    }
  }

  /// Returns true if an OFFLOAD or RELOAD is at a position. The order of launches does not include these two.
  bool is_copy_at(std::int32_t position) const { return is_host_copy(flat_.actions[index(position)].kind); }

  /// Returns true if the message at a position waits for the launch of this position. Only the RECV of an
  /// eager message does not wait.
  bool launch_lets_start(std::int32_t position) const {
    switch (flat_.ops[index(position)]) {
      case FlatOp::send:
      case FlatOp::collective:
        return true;
      case FlatOp::recv:
        return !flat_.messages[index(flat_.message[index(position)])].eager;
      case FlatOp::compute:
      case FlatOp::leaf:
      case FlatOp::reshard:
      case FlatOp::wait:
      case FlatOp::barrier:
        break;
    }
    return false;
  }

  /// Starts the next launch of the rank's host, unless the host must wait first.
  void go_on(std::int32_t rank) {
    Host& host = hosts_[index(rank)];
    const std::int32_t end = flat_.rank_begin[index(rank) + 1];
    while (host.at < end && !is_launched_alone(host.at)) ++host.at;
    if (host.at == end) return;
    // If the host is `most_ahead` compute actions ahead of the device, it waits until end_compute() calls
    // this function again. Otherwise the launch takes time, and launch() increments `at` at its end.
    const bool computes = flat_.ops[index(host.at)] == FlatOp::compute;
    host.stands = computes && flat_.most_ahead > 0 && host.launched - host.ended >= flat_.most_ahead;
    if (!host.stands) events_.push({now_ + launch_ns_, sequence_++, flat_.rank_count + rank});
  }

  /// Returns true if the host launches the action at a position. A group of transfers is launched at its
  /// first position.
  bool is_launched_alone(std::int32_t position) const {
    const FlatOp op = flat_.ops[index(position)];
    if (op == FlatOp::leaf || op == FlatOp::reshard || op == FlatOp::wait || op == FlatOp::barrier)
      return false;
    return op == FlatOp::collective || !flat_.is_grouped(position) ||
           flat_.transfer_group[index(position)] == position;
  }

  void launch(std::int32_t rank) {
    Host& host = hosts_[index(rank)];
    const std::int32_t position = host.at++;
    const bool opens_group = flat_.ops[index(position)] != FlatOp::collective && flat_.is_grouped(position);
    const std::int32_t end = opens_group ? flat_.transfer_group_end(position) : position + 1;
    for (std::int32_t p = position; p < end; ++p) {
      // Collectives between the transfers of a group have launches of their own.
      if (opens_group && flat_.ops[index(p)] == FlatOp::collective) continue;
      if (launch_lets_start(p)) settle_end(flat_.message[index(p)], p);
    }
    if (flat_.ops[index(position)] == FlatOp::compute) {
      ++host.launched;
      if (std::exchange(host.is_awaited, false)) advance(rank);
    }
    go_on(rank);
  }

  /// Returns true if the host has launched the rank's next compute action. Otherwise records that the rank
  /// waits for the launch.
  bool is_launched(std::int32_t rank) {
    if (!flat_.has_launches) return true;
    Host& host = hosts_[index(rank)];
    host.is_awaited = host.launched == host.ended;
    return !host.is_awaited;
  }

  // --- ranks --------------------------------------------------------------------------------------

  /// Processes the rank's list until the rank computes or waits, or the list ends.
  void advance(std::int32_t rank) {
    std::int32_t& cursor = cursor_[index(rank)];
    for (; cursor < state_.rank_begin[index(rank) + 1]; ++cursor) {
      EventStep& step = state_.steps[index(cursor)];
      if (step.op == FlatOp::compute) return begin_compute(rank, step);
      if (has_groups_ && flat_.is_grouped(step.position)) {
        if (!pass_group(rank, cursor)) return;
      } else if (!pass(rank, step)) {
        return;
      }
    }
  }

  void begin_compute(std::int32_t rank, EventStep& step) {
    stands_at_[index(rank)] = kNone;
    if (!is_launched(rank)) return;
    Ns start = now_;
    std::int32_t next = step.more_waits;
    for (std::int32_t id = step.message; id != kNone;) {
      stands_at_[index(rank)] = id;
      // The arrival of a message is known when its flow ends, even if the arrival is in the future
      // (end_transfer()). No event is needed for the arrival.
      const Ns arrival = message(id).end_ns;
      if (arrival == kUnknown) return;
      start = std::max(start, arrival);
      id = next == kNone ? kNone : flat_.message[index(next)];
      if (next != kNone) next = flat_.next_wait[index(next)];
    }
    stands_at_[index(rank)] = kNone;
    step.start_ns = start;
    __builtin_prefetch(&step + 2);  // the rank's next step, which runs after events of other ranks
    schedule_end(start + step.duration_ns, rank);
  }

  /// Processes the group of transfers whose first step is `cursor`, and leaves `cursor` at its last step.
  /// Returns false if the rank must wait in the group.
  bool pass_group(std::int32_t rank, std::int32_t& cursor) {
    const std::int32_t group = state_.steps[index(cursor)].position;
    std::int32_t end = cursor + 1;
    while (end < state_.rank_begin[index(rank) + 1] &&
           flat_.transfer_group[index(state_.steps[index(end)].position)] == group) {
      ++end;
    }
    // The group is posted only once. If the rank already waits in this group, it has been posted before.
    if (std::exchange(posted_[index(rank)], group) != group) post_group(cursor, end);
    for (std::int32_t s = cursor; flat_.waits_in_group(group) && s < end; ++s) {
      const EventStep& step = state_.steps[index(s)];
      if (step.op != FlatOp::send && step.op != FlatOp::recv) continue;
      stands_at_[index(rank)] = step.message;
      if (message(step.message).end_ns == kUnknown) return false;
    }
    cursor = end - 1;
    return true;
  }

  void post_group(std::int32_t begin, std::int32_t end) {
    for (std::int32_t s = begin; s < end; ++s) {
      EventStep& step = state_.steps[index(s)];
      if (step.op == FlatOp::reshard) {
        step.start_ns = now_;
        continue;
      }
      if (step.op != FlatOp::recv || !flat_.messages[index(step.message)].eager) settle(step.message);
    }
  }

  /// Lets the rank pass a step that is neither a compute action nor a transfer. Returns false if the rank
  /// must wait at the step.
  bool pass(std::int32_t rank, EventStep& step) {
    if (step.op == FlatOp::reshard) {
      step.start_ns = now_;
      return true;
    }
    if (step.op == FlatOp::wait) return pass_wait(rank, step);
    // If the rank has already waited at this step, its end of the message is settled already.
    const bool again = stands_at_[index(rank)] == step.message;
    if (!again) settle_end(step.message, step.position);
    if (step.op == FlatOp::collective) return true;
    stands_at_[index(rank)] = step.message;
    return message(step.message).end_ns != kUnknown;
  }

  /// Lets the rank pass a WAIT. Returns false if a message for which the WAIT waits has not ended.
  bool pass_wait(std::int32_t rank, EventStep& step) {
    std::int32_t next = step.more_waits;
    for (std::int32_t id = step.message; id != kNone;) {
      stands_at_[index(rank)] = id;
      if (message(id).end_ns == kUnknown) return false;
      id = next == kNone ? kNone : flat_.message[index(next)];
      if (next != kNone) next = flat_.next_wait[index(next)];
    }
    stands_at_[index(rank)] = kNone;
    step.start_ns = now_;
    return true;
  }

  /// Ends the compute action at which the rank's cursor is.
  void end_compute(std::int32_t rank) {
    const EventStep& step = state_.steps[index(cursor_[index(rank)]++)];
    if (order_) {
      settle_made(step.position);
    } else {
      for (std::int32_t id = step.first_send; id != kNone; id = message(id).next_send) settle(id);
    }
    if (!flat_.released_by_consumer.empty()) {
      std::int32_t id = flat_.released_by_consumer[index(step.position)];
      for (; id != kNone; id = flat_.messages[index(id)].next_of_capacity)
        settle_end(id, flat_.messages[index(id)].recv);
    }
    if (flat_.has_launches) {
      ++hosts_[index(rank)].ended;
      if (hosts_[index(rank)].stands) go_on(rank);
    }
    advance(rank);
  }

  // --- messages -----------------------------------------------------------------------------------

  /// Records that one of the events for which message `id` waits has happened. If it was the last one, starts
  /// the message.
  void settle(std::int32_t id) {
    EventMessage& settled = message(id);
    if (--settled.missing > 0) return;
    settled.start_ns = now_;
    __builtin_prefetch(&settled + 2);  // probably the next message between the same two ranks
    if (settled.flow_class != kNone) {
      start_flow(id, settled.flow_class, settled.bytes);
      return;
    }
    const std::int32_t member = flat_.messages[index(id)].first;
    if (is_copy_at(member)) {
      schedule_arrival(now_ + settled.latency_ns, id);
    } else if (flat_.ops[index(member)] == FlatOp::collective) {
      start_ring(id, flat_.actions[index(member)]);
    } else {
      schedule_arrival(now_, id);
    }
  }

  // --- launch order -------------------------------------------------------------------------------

  // In launch order, each end of a message has a count of its own events, and a rank's launches start one
  // after the other (launch_walk.hpp). The message waits for the launches at its ends.

  void order_launches() {
    order_ = launch_lists(flat_);
    resident_.assign(index(flat_.rank_count), 0);
    for (std::size_t id = 0; id < flat_.messages.size(); ++id)
      state_.messages[id].missing = launches_of(flat_, flat_.messages[id]);
  }

  /// Records, like settle(), an event for which message `id` waits. Only the end of the message at `position`
  /// waits for this event.
  void settle_end(std::int32_t id, std::int32_t position) {
    if (!order_ || is_copy_at(position)) return settle(id);
    if (--order_->missing[index(position)] == 0) reside(flat_.rank_of(position));
  }

  /// Records the end of the compute action at `position` for every message that sends a result of this
  /// action. Each of them now waits for one event less.
  void settle_made(std::int32_t position) {
    for (std::int32_t id = order_->first_sent[index(position)]; id != kNone;
         id = order_->next_sent[index(id)])
      settle_end(id, flat_.messages[index(id)].first);
  }

  /// Calls settle_end() for the next message in each of the two queues that message `left` has just left.
  void settle_next_launches(const FlatMessage& left) {
    const auto settle_on = [&](std::int32_t rank, std::int32_t next) {
      if (next != kNone) settle_end(next, transfer_end_on(flat_.messages[index(next)], rank));
    };
    settle_on(left.from_rank, left.next_at_sender);
    settle_on(left.to_rank, left.next_at_receiver);
  }

  /// Starts the next launches of the rank, up to the first one for which a necessary event is still missing.
  void reside(std::int32_t rank) {
    const std::vector<std::int32_t>& launches = order_->of_rank[index(rank)];
    std::size_t& next = resident_[index(rank)];
    while (next < launches.size() && order_->missing[index(launches[next])] == 0) {
      const std::int32_t position = launches[next++];
      const std::int32_t id = flat_.message[index(position)];
      const FlatMessage& launched = flat_.messages[index(id)];
      if (!launched.eager || position != launched.recv) settle(id);
    }
  }

  // --- flows --------------------------------------------------------------------------------------

  void start_flow(std::int32_t id, std::int32_t flow_class, Bytes bytes) {
    ++message(id).missing;
    network_.start(now_, flow_class, bytes, id);
  }

  void start_ring(std::int32_t id, const Action& action) {
    if (rings_.of(action).phases.empty()) {
      schedule_arrival(now_, id);
    } else {
      start_phase(id, action, 0);
    }
  }

  void start_phase(std::int32_t id, const Action& action, std::size_t phase) {
    phase_of_[id] = phase;
    // All hops start a flow at the same time. The steps of a ring keep every hop busy from start to end, so
    // the phase ends with its slowest hop.
    for (const RingHop& hop : rings_.of(action).phases[phase].hops)
      start_flow(id, network_.class_of(hop.from, hop.to), hop.bytes);
  }

  /// Starts the next phase of a collective when one phase has ended. Returns false if there is no further
  /// phase, as for a barrier.
  bool start_next_phase(std::int32_t id) {
    const auto phase = phase_of_.find(id);
    if (phase == phase_of_.end()) return false;
    const Action& action = flat_.actions[index(flat_.messages[index(id)].first)];
    if (phase->second + 1 == rings_.of(action).phases.size()) return false;
    start_phase(id, action, phase->second + 1);
    return true;
  }

  void end_flow(std::int32_t id) {
    EventMessage& ended = message(id);
    if (--ended.missing > 0) return;
    if (ended.flow_class == kNone) {
      const Action& action = flat_.actions[index(flat_.messages[index(id)].first)];
      schedule_arrival(now_ + rings_.of(action).phases[phase_of_[id]].latency_ns, id);
      return;
    }
    end_transfer(id, now_ + ended.latency_ns);
    if (has_followers_) return settle_followers(flat_.messages[index(id)]);
    if (order_) return settle_next_launches(flat_.messages[index(id)]);
    if (ended.next_at_sender != kNone) settle(ended.next_at_sender);
    if (ended.next_at_receiver != kNone) settle(ended.next_at_receiver);
  }

  /// Calls settle() for the messages that wait for message `left` in its queues. In these queues, several
  /// messages may travel at the same time.
  void settle_followers(const FlatMessage& left) {
    const auto settle_all = [&](std::int32_t rank, std::int32_t position) {
      const std::int32_t end = flat_.rank_begin[index(rank) + 1];
      for_each_follower(flat_, model_, position, end,
                        [&](std::int32_t follower) { settle(flat_.message[index(follower)]); });
    };
    settle_all(left.from_rank, left.first);
    settle_all(left.to_rank, left.recv);
  }

  /// Sets the arrival time of a transfer. Outside of groups and without a WAIT, only compute actions wait
  /// for it. They can compute their starts from an arrival in the future, so no event is needed.
  void end_transfer(std::int32_t id, Ns arrival) {
    const FlatMessage& ended = flat_.messages[index(id)];
    if (ended.send_awaited ||
        (has_groups_ && (flat_.is_grouped(ended.first) || flat_.is_grouped(ended.recv)))) {
      schedule_arrival(arrival, id);
      return;
    }
    message(id).end_ns = arrival;
    wake(message(id).to_rank, id);
  }

  void arrive(std::int32_t id) {
    message(id).end_ns = now_;
    const FlatMessage& arrived = flat_.messages[index(id)];
    if (arrived.recv != kNone) {
      wake(arrived.to_rank, id);
      wake(arrived.from_rank, id);
      return;
    }
    if (start_next_phase(id)) return;
    for (std::int32_t m = arrived.first; m != kNone; m = flat_.next_member[index(m)]) {
      const std::int32_t next = flat_.next_collective[index(m)];
      if (next != kNone) settle_end(flat_.message[index(next)], next);
      wake(flat_.rank_of(m), id);
    }
    if (arrived.next_at_receiver != kNone) settle(arrived.next_at_receiver);
  }

  void wake(std::int32_t rank, std::int32_t id) {
    if (stands_at_[index(rank)] == id) advance(rank);
  }

  const FlatProgram& flat_;
  bool has_groups_;     // true if ranks wait for transfers
  bool has_followers_;  // true if messages of one group pass side by side in a queue
  ChannelModel model_;
  FlowNetwork network_;
  EventState state_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint32_t sequence_ = 0;
  Ns now_ = 0;
  std::vector<std::int32_t> cursor_;     // for each rank, the step that is next or that the rank computes
  std::vector<std::int32_t> stands_at_;  // message that each rank waits for, or kNone
  std::vector<std::int32_t> posted_;     // group of transfers that each rank has posted last, or kNone
  CollectiveRings rings_;
  // Phase of each collective in progress, by message.
  std::unordered_map<std::int32_t, std::size_t> phase_of_;
  struct Host {
    std::int32_t at = 0;        // position that the host launches next
    std::int32_t launched = 0;  // number of compute actions that the host has launched
    std::int32_t ended = 0;     // number of launched compute actions that have ended
    bool stands = false;        // true if the host waits because it is as far ahead as allowed
    bool is_awaited = false;    // true if the rank waits for the launch of a compute action
  };
  std::vector<Host> hosts_;  // one for each rank; empty if no host launches
  Ns launch_ns_;
  std::optional<LaunchLists> order_;   // absent if operations need no launch order
  std::vector<std::size_t> resident_;  // number of launches of each rank that have started
};

}  // namespace

ProgramTimes event_walk(const Experiment& experiment, const FlatProgram& flat,
                        const WalkDurations& durations) {
  return EventSimulator(experiment, flat, durations).run().value();
}

tl::expected<EngineRun, Hang> event_run(const Experiment& experiment) {
  FlatProgram flat = flatten(experiment.program, experiment.costs,
                             {.channels = experiment.channels, .iterations = experiment.program.iterations});
  auto times = EventSimulator(experiment, flat, walk_durations(experiment, flat)).run();
  // Crossed messages do not stop the run if they are eager, so the check must look for them.
  if (!times || experiment.channels.eager_bytes > 0) {
    if (auto hang = find_hang(experiment.program, experiment.channels, experiment.costs))
      return tl::unexpected(*std::move(hang));
  }
  return EngineRun{.flat = std::move(flat), .times = *std::move(times)};
}

}  // namespace penstock
