// Moves messages between workers of one process. If a program does not hang on directed channels, both ranks
// of a pair list their messages in the same order. A transfer is enqueued on the pair's stream when three
// conditions hold: its sender has reached it, all earlier transfers are enqueued, and its slot is free. The
// stream preserves the order. No thread waits; streams wait for events:
//
//     compute of 0:     F0 | made
//     stream of 0 -> 1:      waits for made and slot | stamp | copy | hold until stamp + pace | ended
//     compute of 1:                                        waits for ended | unpack | consumed | F0
//
// backend/nccl moves messages between processes with GPUs. Tests: tests/backend/standin.

#include "backend/cuda/local_transport.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <driver_types.h>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/launch_count.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/stream_queue.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

/// Converts a duration on the run's clock to a duration on the device's clock, which is `scale` times as
/// long.
std::uint64_t on_device(Ns time, double scale) {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(time) * scale));
}

}  // namespace

ChannelOptions local_channels() { return find_transport("cuda-streams")->channels; }

// --- resources that all runs share ---

CudaLinks::CudaLinks(const FlatProgram& flat, const CudaWorkers& workers, const CostTable& costs)
    : slots_(link_slots(flat)) {
  std::map<LinkSlots::Edge, std::size_t> largest;
  for (const FlatMessage& message : flat.messages) {
    if (message.recv == kNone) {
      const std::int32_t first = flat.rank_of(message.first);
      // Barriers and collectives with the same first member share one stream, because the program runs them
      // one after another.
      if (!collectives_.contains(first)) collectives_.emplace(first, workers.link_stream(first));
      if (flat.ops[index(message.first)] == FlatOp::collective) make_bounces(flat, message, workers, costs);
      continue;
    }
    std::size_t& bytes = largest[{message.from_rank, message.to_rank}];
    bytes = std::max(bytes, static_cast<std::size_t>(message.bytes));
  }
  for (const auto& [edge, bytes] : largest) {
    const std::int32_t to = workers.place(edge.second).stream.device;
    // Memory for the largest message is allocated before the run is timed, because an allocation waits for
    // the whole device.
    Link link{.stream = workers.link_stream(edge.first),
              .source = DeviceBuffer(workers.place(edge.first).stream.device, bytes),
              .slots = {}};
    for (std::int32_t i = 0; i < slots_.count.at(edge); ++i) {
      link.slots.push_back({.landing = DeviceBuffer(to, bytes), .consumed = CudaEvent(to)});
    }
    links_.emplace(edge, std::move(link));
  }
}

/// Allocates a buffer for each member of the collective that must read contributions from other devices.
void CudaLinks::make_bounces(const FlatProgram& flat, const FlatMessage& collective,
                             const CudaWorkers& workers, const CostTable& costs) {
  std::map<std::int32_t, std::int32_t> devices;  // device of each member
  for (std::int32_t m = collective.first; m != kNone; m = flat.next_member[index(m)]) {
    const std::int32_t rank = flat.rank_of(m);
    devices[rank] = workers.place(rank).stream.device;
  }
  const auto bytes = static_cast<std::size_t>(collective_bytes(costs, flat.actions[index(collective.first)]));
  for (const auto& [rank, device] : devices) {
    // A member reads contributions on its own device without a copy, so it needs no buffer for them.
    const auto elsewhere = [here = device](const auto& member) { return member.second != here; };
    if (!std::ranges::any_of(devices, elsewhere)) continue;
    DeviceBuffer& bounce = bounces_[rank];
    if (bounce.bytes() < bytes) bounce = DeviceBuffer(device, bytes);
  }
}

DeviceBuffer& CudaLinks::bounce_of(std::int32_t rank, std::size_t bytes) {
  DeviceBuffer& bounce = bounces_.at(rank);
  if (bounce.bytes() < bytes) bounce = DeviceBuffer(bounce.device(), bytes);
  return bounce;
}

CudaLinks::Slot& CudaLinks::slot_of(const FlatMessage& message, std::int32_t id, std::size_t bytes) {
  Slot& slot = links_.at({message.from_rank, message.to_rank}).slots[index(slots_.slot[index(id)])];
  if (slot.landing.bytes() < bytes) slot.landing = DeviceBuffer(slot.landing.device(), bytes);
  return slot;
}

DeviceBuffer& CudaLinks::source_of(const FlatMessage& message) {
  return links_.at({message.from_rank, message.to_rank}).source;
}

// --- one run ----------------------------------------------------------------------------------------------

CudaLocalTransport::CudaLocalTransport(const CudaLocalParts& parts)
    : parts_(parts),
      moments_(2 * parts.flat.messages.size()),
      scratch_(index(parts.flat.rank_count)),
      states_(parts.flat.messages.size()),
      sent_(index(parts.flat.rank_count)),
      last_collective_(index(parts.flat.rank_count), kNone) {
  for (std::int32_t rank = 0; rank < parts.flat.rank_count; ++rank) {
    device_times_.emplace_back(parts.clock, parts.time_scale, compute(rank));
  }
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(states_.size()); ++id) prepare(id);
}

/// Creates the CUDA events of the message, and counts the conditions that must hold before it is enqueued.
void CudaLocalTransport::prepare(std::int32_t message) {
  const FlatMessage& flat = flat_of(message);
  State& made = state(message);
  if (!is_transfer(message)) {
    made.pending = flat.pending;
    for (std::int32_t m = flat.first; m != kNone; m = parts_.flat.next_member[index(m)]) {
      const std::int32_t rank = parts_.flat.rank_of(m);
      made.members.emplace(rank, Member{.contribution = nullptr, .joined = CudaEvent(compute(rank).device)});
    }
    made.ended.emplace(parts_.links.collective_stream(parts_.flat.rank_of(flat.first)).device);
    return;
  }
  ++made.pending;  // the transfer waits until its sender reaches the SEND
  // The next message of the pair waits for this one, because messages must stay in order.
  if (flat.next_at_sender != kNone) ++state(flat.next_at_sender).pending;
  // The next message that uses the same slot waits until this one has been unpacked.
  const std::int32_t next_in_slot = parts_.links.slots().next[index(message)];
  if (next_in_slot != kNone) ++state(next_in_slot).pending;
  made.made.emplace(compute(flat.from_rank).device);
  if (parts_.flat.is_grouped(flat.recv)) {
    ++made.pending;  // the transfer waits until its receiver reaches the RECV
    made.posted.emplace(compute(flat.to_rank).device);
  }
  made.ended.emplace(parts_.links.stream(flat.from_rank, flat.to_rank).device);
}

CudaLocalTransport::~CudaLocalTransport() { end_or_give_up_all(); }

void CudaLocalTransport::end_or_give_up_all() {
  if (devices_are_given_up()) return;
  const auto until = std::chrono::steady_clock::now() + kUntilGivenUp;
  const auto limits = [&] {
    return WaitLimits{.stopped = {}, .deadline = until - std::chrono::steady_clock::now()};
  };
  try {
    // Streams may still use events and buffers that this destructor frees.
    for (std::int32_t message = 0; message < static_cast<std::int32_t>(states_.size()); ++message) {
      if (state(message).given) wait_for(*state(message).ended, limits());
    }
    for (std::int32_t rank = 0; rank < parts_.flat.rank_count; ++rank) {
      use_device(compute(rank).device);
      wait_for(compute(rank), limits());
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): of a run that has failed and said why
  }
}

// --- transfers --------------------------------------------------------------------------------------------

void CudaLocalTransport::send(std::int32_t message, Payload payload) {
  const std::int32_t rank = flat_of(message).from_rank;
  const std::scoped_lock lock(mutex_);
  forget_ended_sends(rank);
  use_device(compute(rank).device);
  // The event `made` passes when all work that is now on the rank's stream has ended.
  state(message).made->record(compute(rank));
  state(message).payload = std::move(payload);
  satisfy_transfer(message);
}

void CudaLocalTransport::expect(std::int32_t message) {
  const StreamView& stream = compute(flat_of(message).to_rank);
  const std::scoped_lock lock(mutex_);
  if (!state(message).posted) return;  // outside of groups, a RECV is ready from the start
  use_device(stream.device);
  state(message).posted->record(stream);
  satisfy_transfer(message);
  use_device(stream.device);  // the transfers above may be on another device
}

/// Records that one more condition of the transfer holds. If it was the last one, enqueues the transfer.
void CudaLocalTransport::satisfy_transfer(std::int32_t message) {
  for (std::int32_t head = message; head != kNone && --state(head).pending == 0;
       head = flat_of(head).next_at_sender) {
    give_transfer(head);
  }
}

void CudaLocalTransport::give_transfer(std::int32_t message) {
  const FlatMessage& flat = flat_of(message);
  const StreamView& stream = parts_.links.stream(flat.from_rank, flat.to_rank);
  use_device(stream.device);
  state(message).made->hold_back(stream);
  if (state(message).posted) state(message).posted->hold_back(stream);
  give_copy(message, stream);
  give_end(message, stream);
  if (state(message).payload != nullptr) sent_[index(flat.from_rank)].push_back(message);
}

void CudaLocalTransport::give_copy(std::int32_t message, const StreamView& stream) {
  const FlatMessage& flat = flat_of(message);
  State& transfer = state(message);
  if (transfer.payload != nullptr && parts_.codec == nullptr) {
    throw std::logic_error("the modules send tensors, but nothing can copy them");
  }
  transfer.carries = transfer.payload != nullptr;
  if (transfer.carries) transfer.layout = parts_.codec->layout_of(*transfer.payload);
  const std::size_t bytes =
      transfer.payload != nullptr ? transfer.layout.bytes : static_cast<std::size_t>(flat.bytes);
  CudaLinks::Slot& slot = parts_.links.slot_of(flat, message, bytes);
  use_device(stream.device);
  // The receiver must have unpacked the slot's previous content.
  slot.consumed.hold_back(stream);
  launch_stamp(moments_.slot(start_slot(message)), stream.stream);
  if (transfer.payload != nullptr) {
    parts_.codec->pack(*transfer.payload, slot.landing.data(), stream);
  } else if (bytes > 0) {
    ++launches_of_this_thread;
    check_cuda(cudaMemcpyAsync(slot.landing.data(), parts_.links.source_of(flat).data(), bytes,
                               cudaMemcpyDefault, stream.stream),
               "cudaMemcpyAsync");
  }
}

/// If the link is emulated, enqueues a kernel that lasts until the emulated time has passed. Then enqueues
/// the event that marks the end of the message.
void CudaLocalTransport::give_end(std::int32_t message, const StreamView& stream) {
  const Ns hold = pace_at(parts_.pace.hold, message);
  if (hold > 0) {
    launch_hold_since(moments_.slot(start_slot(message)), on_device(hold, parts_.time_scale),
                      moments_.slot(end_slot(message)), stream.stream);
  } else {
    launch_stamp(moments_.slot(end_slot(message)), stream.stream);
  }
  state(message).ended->record(stream);
  state(message).given = true;
  changed_.notify_all();
}

/// Frees the payloads of this rank's messages that have been copied.
void CudaLocalTransport::forget_ended_sends(std::int32_t rank) {
  std::erase_if(sent_[index(rank)], [this](std::int32_t message) {
    if (!state(message).ended->has_passed()) return false;
    state(message).payload.reset();
    return true;
  });
}

Payload CudaLocalTransport::take(std::int32_t message) {
  const FlatMessage& flat = flat_of(message);
  const StreamView& stream = compute(flat.to_rank);
  const std::scoped_lock lock(mutex_);
  State& transfer = state(message);
  CudaLinks::Slot& slot = parts_.links.slot_of(flat, message, 0);
  Payload content;
  if (transfer.carries) {
    use_device(stream.device);
    content = parts_.codec->unpack(transfer.layout, slot.landing.data(), stream);
  }
  use_device(stream.device);
  // From here on, the next message in the slot may be enqueued. Its stream waits for this event, but no
  // thread does.
  slot.consumed.record(stream);
  const std::int32_t next = parts_.links.slots().next[index(message)];
  if (next != kNone) satisfy_transfer(next);
  return content;
}

// --- collectives ------------------------------------------------------------------------------------------

void CudaLocalTransport::join(std::int32_t message, std::int32_t rank, SharedPayload contribution) {
  const std::scoped_lock lock(mutex_);
  Member& member = state(message).members.at(rank);
  use_device(compute(rank).device);
  member.joined.record(compute(rank));
  member.contribution = std::move(contribution);
  satisfy_collective(message);
}

/// Records that one more condition of the collective holds. If it was the last one, enqueues the
/// collective.
void CudaLocalTransport::satisfy_collective(std::int32_t message) {
  std::vector<std::int32_t> satisfied = {message};
  while (!satisfied.empty()) {
    const std::int32_t id = satisfied.back();
    satisfied.pop_back();
    if (--state(id).pending > 0) continue;
    give_collective(id);
    const FlatProgram& flat = parts_.flat;
    for (std::int32_t m = flat_of(id).first; m != kNone; m = flat.next_member[index(m)]) {
      const std::int32_t next = flat.next_collective[index(m)];
      if (next != kNone) satisfied.push_back(flat.message[index(next)]);
    }
  }
}

/// Enqueues the collective on its stream. The stream waits until all members have joined and until their
/// earlier collectives have ended.
void CudaLocalTransport::give_collective(std::int32_t message) {
  const StreamView& stream = parts_.links.collective_stream(parts_.flat.rank_of(flat_of(message).first));
  use_device(stream.device);
  for (const auto& [rank, member] : state(message).members) {
    member.joined.hold_back(stream);
    std::int32_t& last = last_collective_[index(rank)];
    if (last != kNone) state(last).ended->hold_back(stream);
    last = message;
  }
  launch_stamp(moments_.slot(start_slot(message)), stream.stream);
  give_end(message, stream);
}

/// Returns the contributions of all members to the collective. They are stored until the end of the run, so
/// that no stream reuses their memory earlier.
std::vector<SharedPayload> CudaLocalTransport::collect(std::int32_t message, std::int32_t rank) {
  const std::scoped_lock lock(mutex_);
  std::vector<SharedPayload> contributions;
  for (const auto& [member, given] : state(message).members) {
    contributions.push_back(brought_here(given.contribution, member, rank));
  }
  return contributions;
}

/// Returns a member's contribution on the device of rank `to`. If it is on another device, the function
/// first copies it there. The stream of `to` runs one copy after another, so all copies can use one buffer.
SharedPayload CudaLocalTransport::brought_here(const SharedPayload& contribution, std::int32_t from,
                                               std::int32_t to) {
  const StreamView& stream = compute(to);
  if (contribution == nullptr || compute(from).device == stream.device) return contribution;
  const DeviceLayout layout = parts_.codec->layout_of(*contribution);
  const DeviceBuffer& bounce = parts_.links.bounce_of(to, layout.bytes);
  use_device(stream.device);
  parts_.codec->pack(*contribution, bounce.data(), stream);
  return parts_.codec->unpack(layout, bounce.data(), stream);
}

// --- waiting ----------------------------------------------------------------------------------------------

void CudaLocalTransport::await_given(std::int32_t message) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || state(message).given; });
  if (stopped_) throw Stopped{};
}

void CudaLocalTransport::wait(std::int32_t message, std::int32_t rank) {
  await_given(message);
  const StreamView& stream = compute(rank);
  use_device(stream.device);
  state(message).ended->hold_back(stream);
  const Ns latency = pace_at(parts_.pace.latency, message);
  if (latency == 0) return;
  // The stream of each member waits for the latency of the collective. The kernel must write the time of its
  // end somewhere. This time is not used, so it goes to scratch_.
  launch_hold_since(moments_.slot(end_slot(message)), on_device(latency, parts_.time_scale),
                    scratch_.slot(index(rank)), stream.stream);
}

void CudaLocalTransport::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

std::int32_t CudaLocalTransport::starter_of(std::int32_t message) const {
  const FlatMessage& flat = flat_of(message);
  return flat.recv == kNone ? parts_.flat.rank_of(flat.first) : flat.from_rank;
}

void CudaLocalTransport::finish(std::int32_t rank) {
  for (std::int32_t message = 0; message < static_cast<std::int32_t>(states_.size()); ++message) {
    if (starter_of(message) != rank) continue;
    await_given(message);
    wait_for(*state(message).ended, {.stopped = [this] { return stopped_.load(); }});
  }
}

MessageTime CudaLocalTransport::time_of(std::int32_t message) const {
  const DeviceTime& device = device_times_[index(starter_of(message))];
  return {.start_ns = device.of(moments_.moment(start_slot(message))),
          .end_ns = device.of(moments_.moment(end_slot(message))) + pace_at(parts_.pace.latency, message)};
}

}  // namespace penstock
