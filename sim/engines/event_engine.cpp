// The event engine: a clock that jumps from event to event, ordered by (time, sequence). Messages become
// ready by the rules of schedules/check/rendezvous_walk.hpp; once started they are flows in a FlowNetwork,
// so their ends move whenever another flow starts or ends on a link of theirs.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "report/timeline/timeline.hpp"
#include "report/timeline/walk_timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/event_walk.hpp"
#include "sim/network/flow_network.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {
namespace {

enum class EventKind : std::uint8_t { compute_end, arrival };

/// Equal times are served in the order in which the events were made.
struct Event {
  Ns time_ns = 0;
  std::uint64_t sequence = 0;
  EventKind kind = EventKind::compute_end;
  std::int32_t subject = 0;  // a position, or a message

  friend auto operator<=>(const Event&, const Event&) = default;
};

class EventSimulator {
 public:
  EventSimulator(const Experiment& experiment, const FlatProgram& flat, const WalkDurations& durations)
      : flat_(flat),
        blocking_(experiment.channels.blocking),
        durations_(durations),
        network_(experiment.cluster),
        cursor_(flat.rank_begin.begin(), flat.rank_begin.end() - 1),
        stands_at_(index(flat.rank_count), kNone),
        arrived_(flat.messages.size(), false),
        flows_left_(flat.messages.size(), 0),
        first_send_(flat.ops.size(), kNone),
        next_send_(flat.messages.size(), kNone),
        times_(empty_times(flat)),
        rings_(experiment) {
    for (const FlatMessage& message : flat.messages) pending_.push_back(message.pending);
  }

  ProgramTimes run() {
    if (!blocking_) post_transfers();
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) advance(rank);
    while (take_next()) {
    }
    return std::move(times_);
  }

 private:
  /// RECVs stand in their queues from the start; a SEND does from the end of its producer.
  void post_transfers() {
    for (std::size_t id = 0; id < flat_.messages.size(); ++id) {
      const FlatMessage& message = flat_.messages[id];
      if (message.recv == kNone) continue;
      const auto number = static_cast<std::int32_t>(id);
      if (message.producer == kNone) {
        settle(number);
      } else {
        next_send_[id] = std::exchange(first_send_[index(message.producer)], number);
      }
      if (!message.eager) settle(number);
    }
  }

  bool take_next() {
    const std::optional<FlowNetwork::NextEnd> flow = network_.next_end();
    if (!flow && events_.empty()) return false;
    if (flow && (events_.empty() || flow->time_ns < events_.top().time_ns)) {
      now_ = flow->time_ns;
      end_flow(flow->flow);
      return true;
    }
    const Event event = events_.top();
    events_.pop();
    now_ = event.time_ns;
    switch (event.kind) {
      case EventKind::compute_end:
        end_compute(event.subject);
        break;
      case EventKind::arrival:
        arrive(event.subject);
        break;
    }
    return true;
  }

  void schedule(Ns time, EventKind kind, std::int32_t subject) {
    events_.push({.time_ns = time, .sequence = sequence_++, .kind = kind, .subject = subject});
  }

  // --- ranks --------------------------------------------------------------------------------------

  /// Runs through the rank's list until it computes, waits or ends.
  void advance(std::int32_t rank) {
    std::int32_t& position = cursor_[index(rank)];
    while (position < flat_.rank_begin[index(rank) + 1]) {
      const FlatOp op = flat_.ops[index(position)];
      if (op == FlatOp::compute) {
        begin_compute(rank, position);
        return;
      }
      if (!pass(rank, position, op)) return;
      ++position;
    }
  }

  void begin_compute(std::int32_t rank, std::int32_t& position) {
    for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
      stands_at_[index(rank)] = flat_.message[index(w)];
      if (!arrived_[index(flat_.message[index(w)])]) return;
    }
    stands_at_[index(rank)] = kNone;
    const Ns end = now_ + durations_.compute[index(position)];
    const std::int32_t after = flat_.group_end(position);
    for (std::int32_t leaf = position; leaf < after; ++leaf) {
      times_.start[index(leaf)] = now_;
      times_.end[index(leaf)] = end;
    }
    schedule(end, EventKind::compute_end, position);
    position = after;
  }

  /// Passes a position that is not computed; false when program order waits at it.
  bool pass(std::int32_t rank, std::int32_t position, FlatOp op) {
    const std::int32_t id = flat_.message[index(position)];
    const bool again = id != kNone && stands_at_[index(rank)] == id;
    if (op == FlatOp::reshard || op == FlatOp::leaf) {
      times_.start[index(position)] = times_.end[index(position)] = now_;
      return true;
    }
    const bool transfer = op == FlatOp::send || op == FlatOp::recv;
    if (transfer && !blocking_) return true;
    const bool needs_this_end = op != FlatOp::recv || !flat_.messages[index(id)].eager;
    if (!again && needs_this_end) settle(id);
    if (op == FlatOp::collective) return true;
    stands_at_[index(rank)] = id;
    return arrived_[index(id)];
  }

  void end_compute(std::int32_t position) {
    for (std::int32_t id = first_send_[index(position)]; id != kNone; id = next_send_[index(id)]) settle(id);
    if (!flat_.released_by_consumer.empty()) {
      std::int32_t id = flat_.released_by_consumer[index(position)];
      for (; id != kNone; id = flat_.messages[index(id)].next_of_capacity) settle(id);
    }
    advance(flat_.rank_of(position));
  }

  // --- messages -----------------------------------------------------------------------------------

  /// One of the things that message `id` waits for has happened.
  void settle(std::int32_t id) {
    if (--pending_[index(id)] > 0) return;
    times_.message_start[index(id)] = now_;
    const FlatMessage& message = flat_.messages[index(id)];
    if (message.recv != kNone) {
      start_flow(id, message.from_rank, message.to_rank, message.bytes);
    } else if (flat_.ops[index(message.first)] == FlatOp::collective) {
      start_ring(id, flat_.actions[index(message.first)]);
    } else {
      schedule(now_, EventKind::arrival, id);
    }
  }

  void start_flow(std::int32_t id, std::int32_t from, std::int32_t to, Bytes bytes) {
    ++flows_left_[index(id)];
    owner_[network_.start(now_, from, to, bytes)] = id;
  }

  void start_ring(std::int32_t id, const Action& action) {
    const CollectiveRing& ring = rings_.of(action);
    if (ring.ranks.size() < 2) {
      schedule(now_, EventKind::arrival, id);
      return;
    }
    for (std::size_t i = 0; i < ring.ranks.size(); ++i)
      start_flow(id, ring.ranks[i], ring.ranks[(i + 1) % ring.ranks.size()], ring.cost.bytes_per_link);
  }

  void end_flow(std::int32_t flow) {
    network_.finish(now_, flow);
    const std::int32_t id = owner_.extract(flow).mapped();
    if (--flows_left_[index(id)] > 0) return;
    const FlatMessage& message = flat_.messages[index(id)];
    if (message.recv == kNone) {
      const Action& action = flat_.actions[index(message.first)];
      schedule(now_ + rings_.of(action).cost.latency_ns, EventKind::arrival, id);
      return;
    }
    schedule(now_ + durations_.latency[index(id)], EventKind::arrival, id);
    if (message.next_at_sender != kNone) settle(message.next_at_sender);
    if (message.next_at_receiver != kNone) settle(message.next_at_receiver);
  }

  void arrive(std::int32_t id) {
    arrived_[index(id)] = true;
    times_.message_end[index(id)] = now_;
    const FlatMessage& message = flat_.messages[index(id)];
    if (message.recv != kNone) {
      wake(message.to_rank, id);
      wake(message.from_rank, id);
      return;
    }
    for (std::int32_t m = message.first; m != kNone; m = flat_.next_member[index(m)]) {
      const std::int32_t next = flat_.next_collective[index(m)];
      if (next != kNone) settle(flat_.message[index(next)]);
      wake(flat_.rank_of(m), id);
    }
  }

  void wake(std::int32_t rank, std::int32_t id) {
    if (stands_at_[index(rank)] == id) advance(rank);
  }

  const FlatProgram& flat_;
  bool blocking_;
  const WalkDurations& durations_;
  FlowNetwork network_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t sequence_ = 0;
  Ns now_ = 0;
  std::vector<std::int32_t> cursor_;     // by rank: the position that it has come to
  std::vector<std::int32_t> pending_;    // by message: what it still waits for
  std::vector<std::int32_t> stands_at_;  // by rank: the message that program order waits for
  std::vector<bool> arrived_;            // by message
  std::vector<std::int32_t> flows_left_;
  std::vector<std::int32_t>
      first_send_;  // by position: transfers that it produces, a list through next_send_
  std::vector<std::int32_t> next_send_;
  std::map<std::int32_t, std::int32_t> owner_;  // flow -> message
  ProgramTimes times_;
  CollectiveRings rings_;
};

}  // namespace

ProgramTimes event_walk(const Experiment& experiment, const FlatProgram& flat,
                        const WalkDurations& durations) {
  return EventSimulator(experiment, flat, durations).run();
}

tl::expected<Timeline, Hang> event_simulation(const Experiment& experiment) {
  if (auto hang = find_hang(experiment.program, experiment.channels, experiment.costs)) {
    return tl::unexpected(std::move(*hang));
  }
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = experiment.channels, .iterations = experiment.program.iterations});
  return timeline_of(flat, experiment.program.placement,
                     event_walk(experiment, flat, walk_durations(experiment, flat)));
}

}  // namespace penstock
