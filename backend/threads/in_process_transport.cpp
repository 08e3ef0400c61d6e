// The rendezvous rules with real times. Each event that a message waits for is recorded when it happens. The
// last one starts the message at the latest of their times. A start may lie in the future, while an emulated
// link is still occupied. Two messages of one queue, the second ready while the first occupies it:
//
//     0F0 ends          0F1 ends
//     |                 |
//     |== hold F0 ======+====|-- latency --| 1F0 may start
//                            |== hold F1 ==========|-- latency --| 1F1 may start
//
// F1 starts when F0 leaves the queue. This time is known as soon as 0F1 ends, so no thread has to wake up in
// between. process/socket_transport.cpp does the same between processes. Tests:
// tests/backend/transport_test.cpp.

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
  // Without blocking channels a RECV is ready from the start, so its part of `pending` is done. An eager
  // message never counted it.
  for (std::size_t id = 0; id < states_.size(); ++id) {
    const FlatMessage& message = flat.messages[id];
    if (message.recv != kNone && !message.eager) satisfy(static_cast<std::int32_t>(id), 0);
  }
}

void InProcessTransport::send(std::int32_t message, Payload payload) {
  const std::scoped_lock lock(mutex_);
  state(message).payload = std::move(payload);
  satisfy(message, clock_.now_ns());
}

void InProcessTransport::expect(std::int32_t message) {
  if (!channels_.blocking) return;
  const std::scoped_lock lock(mutex_);
  if (!flat_.messages[index(message)].eager) satisfy(message, clock_.now_ns());
}

void InProcessTransport::release(std::int32_t position) {
  if (flat_.released_by_consumer.empty()) return;
  const std::scoped_lock lock(mutex_);
  std::int32_t id = flat_.released_by_consumer[index(position)];
  for (; id != kNone; id = flat_.messages[index(id)].next_of_capacity) satisfy(id, clock_.now_ns());
}

void InProcessTransport::join(std::int32_t message, std::int32_t rank, SharedPayload contribution) {
  const std::scoped_lock lock(mutex_);
  // The members are stored by rank and not by arrival, so that a sum of doubles is exactly the same in each
  // repeat.
  auto& members = state(message).members;
  const auto after = std::ranges::find_if(members, [rank](const Member& m) { return m.rank > rank; });
  members.insert(after, {rank, std::move(contribution)});
  satisfy(message, clock_.now_ns());
}

void InProcessTransport::wait(std::int32_t message, std::int32_t rank) {
  std::unique_lock lock(mutex_);
  auto& changed = changed_[index(rank)];
  const State& waited = state(message);
  changed.wait(lock, [&] { return stopped_ || waited.pending == 0; });
  // The message has a start and an end now, which may both be in the future.
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
  // Members that still share the contributions keep them alive, so the transport can drop its share.
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

/// Records that one of the events for which the message waits happened at `time`, and starts the message at
/// the last one.
void InProcessTransport::satisfy(std::int32_t message, Ns time) {
  State& waiting = state(message);
  waiting.time.start_ns = std::max(waiting.time.start_ns, time);
  if (--waiting.pending > 0) return;
  startable_.push_back(message);
  // The outer call processes the whole list, so chains of queues cause no deep recursion.
  if (startable_.size() > 1) return;
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
  // Only with blocking channels a rank waits for its SEND.
  if (channels_.blocking) wake(flat.from_rank);
  // The queues are free after `hold`; the latency occupies no queue.
  if (flat.next_at_sender != kNone) satisfy(flat.next_at_sender, released);
  if (flat.next_at_receiver != kNone) satisfy(flat.next_at_receiver, released);
}

/// Starts each member's next collective on its own rank. With overlapping groups these are different ones.
void InProcessTransport::start_next_collectives(std::int32_t message) {
  const Ns end = state(message).time.end_ns;
  std::int32_t member = flat_.messages[index(message)].first;
  for (; member != kNone; member = flat_.next_member[index(member)]) {
    wake(flat_.rank_of(member));
    const std::int32_t next = flat_.next_collective[index(member)];
    if (next != kNone) satisfy(flat_.message[index(next)], end);
  }
}

}  // namespace penstock
