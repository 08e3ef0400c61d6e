// Moves messages between processes over sockets. It follows the rules of in_process_transport.cpp, but the
// work is divided between processes. If a program does not hang on directed channels, both ranks of a pair
// list their messages in the same order. The queue of the sender alone therefore decides when a transfer
// starts:
//
//     transfer     it is sent when the sender has reached it and the transfer before it has left the queue;
//                  the frame contains both times, and the receiver sleeps until the end
//     in a group   the receiver sends a frame with the time when it has posted its group, and the sender
//                  waits for it as well
//     collective   a member joins when it has reached the collective and its previous collective has ended;
//                  it sends a frame to all others; start = the latest join, end = start + pace
//
// A collective has no root. All members compute the same times from the same numbers, and they add the
// contributions in the same order. Tests: tests/backend/socket_transport_test.cpp.

#include "backend/process/socket_transport.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/executor/transport.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

namespace {

std::vector<std::int32_t> members_of(const FlatProgram& flat, const FlatMessage& collective) {
  std::vector<std::int32_t> ranks;
  for (std::int32_t m = collective.first; m != kNone; m = flat.next_member[index(m)]) {
    ranks.push_back(flat.rank_of(m));
  }
  return ranks;
}

}  // namespace

std::vector<std::int32_t> messages_of(const FlatProgram& flat, std::int32_t rank) {
  std::vector<std::int32_t> messages;
  for (std::size_t id = 0; id < flat.messages.size(); ++id) {
    const FlatMessage& message = flat.messages[id];
    const std::int32_t owner = message.recv == kNone ? flat.rank_of(message.first) : message.from_rank;
    if (owner == rank) messages.push_back(static_cast<std::int32_t>(id));
  }
  return messages;
}

std::vector<std::int32_t> peers_of(const FlatProgram& flat, std::int32_t rank) {
  std::set<std::int32_t> peers;
  for (std::int32_t p = flat.rank_begin[index(rank)]; p < flat.rank_begin[index(rank) + 1]; ++p) {
    if (flat.message[index(p)] == kNone) continue;
    const FlatMessage& message = flat.messages[index(flat.message[index(p)])];
    const std::vector<std::int32_t> ranks =
        message.recv == kNone ? members_of(flat, message) : std::vector{message.from_rank, message.to_rank};
    peers.insert(ranks.begin(), ranks.end());
  }
  peers.erase(rank);
  return {peers.begin(), peers.end()};
}

std::vector<std::vector<std::int32_t>> peers_of_ranks(const FlatProgram& flat) {
  std::vector<std::vector<std::int32_t>> peers;
  peers.reserve(index(flat.rank_count));
  for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) peers.push_back(peers_of(flat, rank));
  return peers;
}

SocketTransport::SocketTransport(SocketTransportParts parts)
    : parts_(std::move(parts)),
      own_(messages_of(parts_.flat, parts_.rank)),
      place_(parts_.flat.messages.size()) {
  make_states();
  count_pending();
}

/// Makes the states of the messages in which this rank takes part. With states of all messages, the memory of
/// each process would grow with the whole program.
void SocketTransport::make_states() {
  const FlatProgram& flat = parts_.flat;
  std::uint32_t states = 1;
  for (std::int32_t p = flat.rank_begin[index(parts_.rank)]; p < flat.rank_begin[index(parts_.rank) + 1];
       ++p) {
    const std::int32_t message = flat.message[index(p)];
    if (message != kNone && place_[index(message)] == 0) place_[index(message)] = states++;
  }
  states_ = std::vector<State>(states);
}

/// Sets, for each message, the number of events on this rank for which the message waits. A transfer that
/// this rank sends waits for its SEND and for the previous transfer in the queue. If its RECV is in a group,
/// it also waits for the receiver. A collective waits for this rank to reach it, and for the end of the
/// rank's previous collective. A RELOAD also waits for its OFFLOAD.
void SocketTransport::count_pending() {
  const FlatProgram& flat = parts_.flat;
  for (const FlatMessage& message : flat.messages) {
    if (message.recv != kNone && message.from_rank == parts_.rank && message.next_at_sender != kNone)
      ++state(message.next_at_sender).pending;
  }
  for (std::int32_t p = flat.rank_begin[index(parts_.rank)]; p < flat.rank_begin[index(parts_.rank) + 1];
       ++p) {
    const FlatOp op = flat.ops[index(p)];
    if (op == FlatOp::send) {
      const std::int32_t message = flat.message[index(p)];
      state(message).pending += flat.is_grouped(flat_of(message).recv) ? 2 : 1;
    }
    if (op != FlatOp::collective && op != FlatOp::barrier) continue;
    State& joined = state(flat.message[index(p)]);
    ++joined.pending;
    joined.missing = static_cast<std::int32_t>(members_of(flat, flat_of(flat.message[index(p)])).size());
    const std::int32_t next = flat.next_collective[index(p)];
    if (next != kNone) ++state(flat.message[index(next)]).pending;
    const std::int32_t reload = flat_of(flat.message[index(p)]).next_at_receiver;
    if (reload != kNone) ++state(reload).pending;
  }
}

Frame SocketTransport::bytes_of(const PayloadContent& content) const {
  if (parts_.codec == nullptr) throw std::logic_error("no codec for a payload that is not null");
  return parts_.codec->encode(content);
}

Payload SocketTransport::payload_of(const Frame& bytes) const {
  if (parts_.codec == nullptr) throw std::logic_error("no codec for a payload that is not null");
  return parts_.codec->decode(bytes);
}

// --- transfers ------------------------------------------------------------------------------------

void SocketTransport::send(std::int32_t message, Payload payload) {
  const Ns now = parts_.clock.now_ns();
  // The payload is encoded before the lock is taken, because encoding is slow and the other thread needs the
  // lock to deliver frames.
  Frame bytes = payload ? bytes_of(*payload) : Frame{};
  const std::scoped_lock lock(mutex_);
  State& sent = state(message);
  sent.bytes = std::move(bytes);
  sent.has_payload = payload != nullptr;
  satisfy_transfer(message, now);
}

void SocketTransport::expect(std::int32_t message) {
  // Outside of groups, a RECV is ready from the start, so the sender needs no frame about it.
  if (!parts_.flat.is_grouped(flat_of(message).recv)) return;
  parts_.send(flat_of(message).from_rank, packed({.run = parts_.run,
                                                  .message = message,
                                                  .from_rank = parts_.rank,
                                                  .start_ns = parts_.clock.now_ns()},
                                                 {}));
}

void SocketTransport::satisfy_transfer(std::int32_t message, Ns time) {
  // After a transfer is sent, the next one in the queue may become ready, and so on.
  for (std::int32_t head = message; head != kNone; head = flat_of(head).next_at_sender) {
    State& leaves = state(head);
    leaves.time.start_ns = std::max(leaves.time.start_ns, time);
    if (--leaves.pending > 0) return;
    // The time at which the next transfer may use the channel.
    time = leaves.time.start_ns + pace_at(parts_.pace.hold, head);
    leaves.time.end_ns = time + pace_at(parts_.pace.latency, head);
    depart(head);
  }
}

void SocketTransport::depart(std::int32_t message) {
  State& leaves = state(message);
  leaves.started = true;
  changed_.notify_all();  // in a group, this rank waits for its own SEND
  const Frame bytes = std::exchange(leaves.bytes, {});
  parts_.send(flat_of(message).to_rank, packed({.run = parts_.run,
                                                .message = message,
                                                .from_rank = parts_.rank,
                                                .has_payload = leaves.has_payload ? 1 : 0,
                                                .start_ns = leaves.time.start_ns,
                                                .end_ns = leaves.time.end_ns},
                                               bytes));
}

Payload SocketTransport::take(std::int32_t message) {
  Frame bytes;
  {
    const std::scoped_lock lock(mutex_);
    if (!state(message).has_payload) return nullptr;
    bytes = std::exchange(state(message).bytes, {});
  }
  return payload_of(bytes);
}

/// Returns true if `peer` may send this message to rank `to`. This is a transfer from `peer` to `to`, or a
/// collective of both.
static bool is_sent_by(const FlatProgram& flat, const FlatMessage& message, std::int32_t peer,
                       std::int32_t to) {
  // The message number is valid. But a faulty or hostile rank could still send a message that belongs to
  // other ranks.
  if (message.recv != kNone) return message.from_rank == peer && message.to_rank == to;
  const std::vector<std::int32_t> members = members_of(flat, message);
  return std::ranges::find(members, peer) != members.end() && std::ranges::find(members, to) != members.end();
}

/// Returns true if `peer` may tell rank `from` that it has posted the RECV of this message in a group.
static bool is_post_by(const FlatProgram& flat, const FlatMessage& message, std::int32_t peer,
                       std::int32_t from) {
  return message.recv != kNone && message.from_rank == from && message.to_rank == peer &&
         flat.is_grouped(message.recv);
}

void SocketTransport::receive(std::int32_t peer, const Frame& frame) {
  const auto view = unpacked(frame);
  // A frame of an earlier run may arrive late and is ignored.
  if (!view || view->header.run != parts_.run || view->header.from_rank != peer) return;
  const DataHeader& header = view->header;
  if (header.message < 0 || index(header.message) >= place_.size()) return;
  if (header.start_ns < 0 || header.end_ns < 0) return;
  if (is_post_by(parts_.flat, flat_of(header.message), peer, parts_.rank)) {
    const std::scoped_lock lock(mutex_);
    // Only the first frame of the receiver counts, even if the receiver sends several.
    if (!std::exchange(state(header.message).posted, true)) satisfy_transfer(header.message, header.start_ns);
    return;
  }
  if (!is_sent_by(parts_.flat, flat_of(header.message), peer, parts_.rank)) return;
  // The payload stays encoded here. Only the rank's thread may use the codec, so take() decodes it.
  const std::scoped_lock lock(mutex_);
  Frame bytes(view->payload.begin(), view->payload.end());
  if (flat_of(header.message).recv == kNone) {
    member_joined(header.message, header.from_rank, header.start_ns,
                  {.own = nullptr, .bytes = std::move(bytes), .has_payload = header.has_payload != 0});
    return;
  }
  State& arrived = state(header.message);
  arrived.time = {header.start_ns, header.end_ns};
  arrived.bytes = std::move(bytes);
  arrived.has_payload = header.has_payload != 0;
  arrived.started = true;
  changed_.notify_all();
}

// --- collectives ----------------------------------------------------------------------------------

void SocketTransport::join(std::int32_t message, std::int32_t, SharedPayload contribution) {
  const Ns now = parts_.clock.now_ns();
  Frame bytes = contribution ? bytes_of(*contribution) : Frame{};
  const std::scoped_lock lock(mutex_);
  State& joined = state(message);
  joined.bytes = std::move(bytes);
  joined.has_payload = contribution != nullptr;
  joined.own = std::move(contribution);
  satisfy_join(message, now);
}

/// Records that one of the events for which the collective waits happened at `time`. The event is that this
/// rank has reached the collective, or that the rank's previous collective has ended.
void SocketTransport::satisfy_join(std::int32_t message, Ns time) {
  State& joined = state(message);
  joined.joined_ns = std::max(joined.joined_ns, time);
  if (--joined.pending > 0) return;
  tell_members(message);
  member_joined(message, parts_.rank, joined.joined_ns,
                {.own = std::move(joined.own), .bytes = {}, .has_payload = joined.has_payload});
}

void SocketTransport::tell_members(std::int32_t message) {
  State& joined = state(message);
  const Frame frame = packed({.run = parts_.run,
                              .message = message,
                              .from_rank = parts_.rank,
                              .has_payload = joined.has_payload ? 1 : 0,
                              .start_ns = joined.joined_ns},
                             std::exchange(joined.bytes, {}));
  for (const std::int32_t other : members_of(parts_.flat, flat_of(message))) {
    if (other != parts_.rank) parts_.send(other, frame);
  }
}

void SocketTransport::member_joined(std::int32_t message, std::int32_t rank, Ns time, Member member) {
  State& joined = state(message);
  joined.time.start_ns = std::max(joined.time.start_ns, time);
  // Each member is counted only once, even if it sends several frames.
  if (!joined.members.emplace(rank, std::move(member)).second) return;
  if (--joined.missing == 0) start_collective(message);
}

void SocketTransport::start_collective(std::int32_t message) {
  State& starts = state(message);
  starts.time.end_ns =
      starts.time.start_ns + pace_at(parts_.pace.hold, message) + pace_at(parts_.pace.latency, message);
  starts.started = true;
  changed_.notify_all();
  const FlatProgram& flat = parts_.flat;
  for (std::int32_t m = flat_of(message).first; m != kNone; m = flat.next_member[index(m)]) {
    if (flat.rank_of(m) != parts_.rank) continue;
    const std::int32_t next = flat.next_collective[index(m)];
    if (next != kNone) satisfy_join(flat.message[index(next)], starts.time.end_ns);
    const std::int32_t reload = flat_of(message).next_at_receiver;
    if (reload != kNone) satisfy_join(reload, starts.time.end_ns);
    return;
  }
}

std::vector<SharedPayload> SocketTransport::collect(std::int32_t message, std::int32_t) {
  std::map<std::int32_t, Member> members;
  {
    const std::scoped_lock lock(mutex_);
    members = std::exchange(state(message).members, {});
  }
  std::vector<SharedPayload> contributions;
  contributions.reserve(members.size());
  // The contributions are in ascending order of ranks, so that every member computes exactly the same sum.
  for (const auto& [rank, member] : members) {
    const bool came_as_bytes = !member.own && member.has_payload;
    contributions.push_back(came_as_bytes ? SharedPayload(payload_of(member.bytes)) : member.own);
  }
  return contributions;
}

// --- waiting --------------------------------------------------------------------------------------

void SocketTransport::wait(std::int32_t message, std::int32_t) {
  std::unique_lock lock(mutex_);
  const State& waited = state(message);
  // The rank first waits until the arrival time is known, and then until that time.
  changed_.wait(lock, [&] { return stopped_ || waited.started; });
  changed_.wait_until(lock, parts_.clock.moment_of(waited.time.end_ns), [&] { return stopped_; });
  if (stopped_) throw Stopped{};
}

void SocketTransport::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

MessageTime SocketTransport::time_of(std::int32_t message) const {
  const std::scoped_lock lock(mutex_);
  return states_[place_[index(message)]].time;
}

std::vector<MessageTime> SocketTransport::own_times() {
  std::vector<MessageTime> times;
  times.reserve(own_.size());
  std::unique_lock lock(mutex_);
  // The rank's list has ended, but its last messages may not have started yet. So the function waits for
  // them.
  for (const std::int32_t message : own_) {
    changed_.wait(lock, [&] { return stopped_ || state(message).started; });
    if (stopped_) throw Stopped{};
    times.push_back(state(message).time);
  }
  return times;
}

// A frame is 32 bytes of numbers followed by the payload. The numbers are copied as they are in memory,
// because the run's time includes the sending. Hosts with different byte orders refuse each other when they
// connect (socket_loop.hpp).

static_assert(std::is_trivially_copyable_v<DataHeader> && sizeof(DataHeader) == 32, "it has no padding");

Frame packed(const DataHeader& header, std::span<const std::uint8_t> payload) {
  Frame frame(sizeof(DataHeader) + payload.size());
  std::memcpy(frame.data(), &header, sizeof(DataHeader));
  std::ranges::copy(payload, frame.begin() + sizeof(DataHeader));
  return frame;
}

std::optional<DataView> unpacked(const Frame& frame) {
  if (frame.size() < sizeof(DataHeader)) return std::nullopt;
  DataView view;
  std::memcpy(&view.header, frame.data(), sizeof(DataHeader));
  view.payload = std::span(frame).subspan(sizeof(DataHeader));
  return view;
}

}  // namespace penstock
