// The rendezvous rules with real times: each thing that a message waits for is noted when it happens, and
// the last one starts the message at the latest of their times. A start may lie in the future, where an
// emulated link is still occupied. Two messages of one queue, the second ready while the first holds it:
//
//   0F0 ends          0F1 ends
//   |                 |
//   |== hold F0 ======+====|-- latency --| 1F0 may start
//                          |== hold F1 ==========|-- latency --| 1F1 may start
//
// F1 starts when F0 has left the queue, at a time that is known as soon as 0F1 has ended: nobody has to wake
// up in between.

#include "backend/threads/in_process_transport.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/executor/clock.hpp"
#include "backend/executor/link_pace.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

InProcessTransport::InProcessTransport(const FlatProgram& flat, const ChannelOptions& channels, LinkPace pace,
                                       const Clock& clock)
    : flat_(flat),
      channels_(channels),
      pace_(std::move(pace)),
      clock_(clock),
      changed_(index(flat.rank_count)),
      states_(flat.messages.size()) {
  for (std::size_t id = 0; id < states_.size(); ++id) states_[id].pending = flat.messages[id].pending;
  if (channels.blocking) return;
  // The RECV's part of `pending`, which waits for nothing here. An eager message never counted it.
  for (std::size_t id = 0; id < states_.size(); ++id) {
    const FlatMessage& message = flat.messages[id];
    if (message.recv != kNone && !message.eager) settle(static_cast<std::int32_t>(id), 0);
  }
}

void InProcessTransport::send(std::int32_t message, Payload payload) {
  const std::scoped_lock lock(mutex_);
  state(message).payload = std::move(payload);
  settle(message, clock_.now_ns());
}

void InProcessTransport::expect(std::int32_t message) {
  if (!channels_.blocking) return;
  const std::scoped_lock lock(mutex_);
  if (!flat_.messages[index(message)].eager) settle(message, clock_.now_ns());
}

void InProcessTransport::release(std::int32_t position) {
  if (flat_.released_by_consumer.empty()) return;
  const std::scoped_lock lock(mutex_);
  std::int32_t id = flat_.released_by_consumer[index(position)];
  for (; id != kNone; id = flat_.messages[index(id)].next_of_capacity) settle(id, clock_.now_ns());
}

void InProcessTransport::join(std::int32_t message, std::int32_t rank, SharedPayload contribution) {
  const std::scoped_lock lock(mutex_);
  // Kept in the order of ranks, not of arrival: sums are the same in each repeat, to the last bit.
  auto& members = state(message).members;
  const auto after = std::ranges::find_if(members, [rank](const Member& m) { return m.rank > rank; });
  members.insert(after, {rank, std::move(contribution)});
  settle(message, clock_.now_ns());
}

void InProcessTransport::wait(std::int32_t message, std::int32_t rank) {
  std::unique_lock lock(mutex_);
  auto& changed = changed_[index(rank)];
  const State& waited = state(message);
  changed.wait(lock, [&] { return stopped_ || waited.pending == 0; });
  // Now it has a start and an end, which may both be still to come.
  changed.wait_until(lock, clock_.moment_of(waited.time.end_ns), [&] { return stopped_; });
  if (stopped_) throw Stopped{};
}

Payload InProcessTransport::take(std::int32_t message) {
  const std::scoped_lock lock(mutex_);
  return std::move(state(message).payload);
}

std::vector<SharedPayload> InProcessTransport::collect(std::int32_t message, std::int32_t) {
  const std::scoped_lock lock(mutex_);
  State& collective = state(message);
  std::vector<SharedPayload> contributions;
  contributions.reserve(collective.members.size());
  for (const Member& member : collective.members) contributions.push_back(member.contribution);
  // Whoever is left with a share of it keeps it alive; the transport need not.
  const bool last = ++collective.collected == static_cast<std::int32_t>(collective.members.size());
  if (last) collective.members.clear();
  return contributions;
}

void InProcessTransport::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  for (auto& changed : changed_) changed.notify_all();
}

MessageTime InProcessTransport::time_of(std::int32_t message) const {
  const std::scoped_lock lock(mutex_);
  return states_[index(message)].time;
}

/// One of the things that the message waits for happened at `time`.
void InProcessTransport::settle(std::int32_t message, Ns time) {
  State& settled = state(message);
  settled.time.start_ns = std::max(settled.time.start_ns, time);
  if (--settled.pending > 0) return;
  startable_.push_back(message);
  if (startable_.size() > 1) return;  // the outer call works the list off: chains of queues do not nest
  for (std::size_t i = 0; i < startable_.size(); ++i) start(startable_[i]);
  startable_.clear();
}

void InProcessTransport::start(std::int32_t message) {
  const FlatMessage& flat = flat_.messages[index(message)];
  MessageTime& time = state(message).time;
  const Ns released = time.start_ns + pace_at(pace_.hold, message);
  time.end_ns = released + pace_at(pace_.latency, message);
  if (flat.recv == kNone) {
    start_next_collectives(message);
    return;
  }
  wake(flat.to_rank);
  // Nobody waits for a SEND where channels do not block.
  if (channels_.blocking) wake(flat.from_rank);
  // The queues are free after `hold`; the latency behind it is nobody's.
  if (flat.next_at_sender != kNone) settle(flat.next_at_sender, released);
  if (flat.next_at_receiver != kNone) settle(flat.next_at_receiver, released);
}

/// Each member's next collective on its own rank, which are different ones where groups overlap.
void InProcessTransport::start_next_collectives(std::int32_t message) {
  const Ns end = state(message).time.end_ns;
  std::int32_t member = flat_.messages[index(message)].first;
  for (; member != kNone; member = flat_.next_member[index(member)]) {
    wake(flat_.rank_of(member));
    const std::int32_t next = flat_.next_collective[index(member)];
    if (next != kNone) settle(flat_.message[index(next)], end);
  }
}

}  // namespace penstock
