// Applies the rendezvous rules to measured times. When an event for which a message waits happens, its time
// is recorded. After the last event, the message starts at the latest of these times. If an emulated link is
// still occupied, the start is in the future. In this example, the second message of a queue is ready while
// the first still occupies the link:
//     0F0 ends          0F1 ends
//     |                 |
//     |== hold F0 ======+====|-- latency --| 1F0 may start
//                            |== hold F1 ==========|-- latency --| 1F1 may start
//
// F1 starts when F0 leaves the queue. This time is known as soon as 0F1 ends, so no thread must wake up for
// the start. process/socket_transport.cpp applies the same rules between processes. Tests:
// tests/backend/transport_test.cpp.

#include "backend/threads/in_process_transport.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/executor/clock.hpp"
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
  // A RECV outside of groups is ready from the start, so this event is recorded now. Eager messages do not
  // wait for their RECV.
  for (std::size_t id = 0; id < states_.size(); ++id) {
    const FlatMessage& message = flat.messages[id];
    if (message.recv != kNone && !message.eager && !flat.is_grouped(message.recv))
      satisfy(static_cast<std::int32_t>(id), 0);
  }
}

void InProcessTransport::send(std::int32_t message, Payload payload) {
  const std::scoped_lock lock(mutex_);
  state(message).payload = std::move(payload);
  satisfy(message, clock_.now_ns());
}

void InProcessTransport::expect(std::int32_t message) {
  if (!flat_.is_grouped(flat_.messages[index(message)].recv)) return;
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
  // The members are sorted by rank and not by arrival. A sum of doubles is then exactly the same in each
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
  // The start and the end of the message are known now, but they may be in the future. So the thread waits
  // until the end.
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
  // When all members have collected the contributions, the transport can drop its references, because the
  // members share the ownership of the contributions.
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

/// Records that one of the events for which the message waits happened at `time`. If this was the last
/// event, starts the message.
void InProcessTransport::satisfy(std::int32_t message, Ns time) {
  State& waiting = state(message);
  waiting.time.start_ns = std::max(waiting.time.start_ns, time);
  if (--waiting.pending > 0) return;
  startable_.push_back(message);
  // Only the outermost call processes the list, so a long chain of messages causes no deep recursion.
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
  // A rank waits for its own SEND only in a group of transfers and at a WAIT.
  if (flat_.is_grouped(flat.first) || flat.send_awaited) wake(flat.from_rank);
  // The queues are free after `hold`, because the latency does not occupy a queue.
  if (flat.next_at_sender != kNone) satisfy(flat.next_at_sender, released);
  if (flat.next_at_receiver != kNone) satisfy(flat.next_at_receiver, released);
}

/// Records for each member of a collective that its next collective no longer waits for this one. If groups
/// of ranks overlap, the next collectives of the members differ.
void InProcessTransport::start_next_collectives(std::int32_t message) {
  const Ns end = state(message).time.end_ns;
  std::int32_t member = flat_.messages[index(message)].first;
  for (; member != kNone; member = flat_.next_member[index(member)]) {
    wake(flat_.rank_of(member));
    const std::int32_t next = flat_.next_collective[index(member)];
    if (next != kNone) satisfy(flat_.message[index(next)], end);
  }
  // The RELOAD of an OFFLOAD.
  const std::int32_t reload = flat_.messages[index(message)].next_at_receiver;
  if (reload != kNone) satisfy(reload, end);
}

}  // namespace penstock
