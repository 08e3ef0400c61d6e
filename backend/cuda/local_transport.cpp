// A program that does not hang on directed channels lists the messages of one pair in the same order at both
// ends, and every RECV stands ready: so the sender's thread alone decides when a transfer starts, gives it to
// the pair's stream, and the stream keeps the order.
//
//   stream of 0 -> 1:   stamp | copy | hold until stamp + pace | event        rank 1 looks at the event

#include "backend/cuda/local_transport.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <driver_types.h>

#include "backend/cuda/cuda_error.hpp"
#include "backend/cuda/device_codec.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/device_time.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/transports.hpp"

namespace penstock {
namespace {

std::size_t start_slot(std::int32_t message) { return 2 * index(message); }
std::size_t end_slot(std::int32_t message) { return 2 * index(message) + 1; }

Ns at(const std::vector<Ns>& times, std::int32_t i) { return times.empty() ? 0 : times[index(i)]; }

}  // namespace

ChannelOptions local_channels() { return find_transport("cuda-streams")->channels; }

CudaLinks::CudaLinks(const FlatProgram& flat, const CudaWorkers& workers) {
  for (const FlatMessage& message : flat.messages) {
    if (message.recv == kNone) continue;
    const std::pair edge(message.from_rank, message.to_rank);
    if (!streams_.contains(edge)) streams_.emplace(edge, workers.link_stream(message.from_rank));
  }
}

CudaLocalTransport::CudaLocalTransport(const CudaLocalParts& parts)
    : parts_(parts), moments_(2 * parts.flat.messages.size()), states_(parts.flat.messages.size()) {
  for (std::int32_t rank = 0; rank < parts.flat.rank_count; ++rank) {
    device_times_.emplace_back(parts.clock, parts.time_scale, parts.workers.place(rank).stream);
  }
  for (std::size_t id = 0; id < states_.size(); ++id) {
    const FlatMessage& message = parts.flat.messages[id];
    if (message.recv == kNone) {
      states_[id].pending = message.pending;
      continue;
    }
    ++states_[id].pending;  // for its SEND
    if (message.next_at_sender != kNone) ++state(message.next_at_sender).pending;
    states_[id].arrived.emplace(parts.workers.place(message.from_rank).stream.device);
  }
}

CudaLocalTransport::~CudaLocalTransport() {
  for (std::int32_t rank = 0; rank < parts_.flat.rank_count; ++rank) {
    if (cudaSetDevice(parts_.workers.place(rank).stream.device) == cudaSuccess) {
      static_cast<void>(cudaDeviceSynchronize());
    }
  }
}

// --- transfers --------------------------------------------------------------------------------------------

void CudaLocalTransport::send(std::int32_t message, Payload payload) {
  state(message).payload = std::move(payload);
  settle_transfer(message);
}

/// One of the things that the transfer waits for has happened.
void CudaLocalTransport::settle_transfer(std::int32_t message) {
  for (std::int32_t head = message; head != kNone && --state(head).pending == 0;
       head = flat_of(head).next_at_sender) {
    start_transfer(head);
  }
}

void CudaLocalTransport::start_transfer(std::int32_t message) {
  const FlatMessage& flat = flat_of(message);
  use_device(parts_.workers.place(flat.from_rank).stream.device);
  const StreamView& stream = parts_.links.stream(flat.from_rank, flat.to_rank);
  launch_stamp(moments_.slot(start_slot(message)), stream.stream);
  enqueue_copy(message, stream);
  const Ns hold = at(parts_.pace.hold, message);
  if (hold > 0) {
    const auto whole =
        static_cast<std::uint64_t>(std::llround(static_cast<double>(hold) * parts_.time_scale));
    launch_hold_since(moments_.slot(start_slot(message)), whole, moments_.slot(end_slot(message)),
                      stream.stream);
  } else {
    launch_stamp(moments_.slot(end_slot(message)), stream.stream);
  }
  state(message).arrived->record(stream);
  const std::scoped_lock lock(mutex_);
  state(message).started = true;
  changed_.notify_all();
}

void CudaLocalTransport::enqueue_copy(std::int32_t message, const StreamView& stream) {
  const FlatMessage& flat = flat_of(message);
  State& transfer = state(message);
  if (transfer.payload != nullptr && parts_.codec == nullptr) {
    throw std::logic_error("the modules send tensors, but nothing can copy them");
  }
  if (transfer.payload != nullptr) transfer.layout = parts_.codec->layout_of(*transfer.payload);
  const std::size_t bytes =
      transfer.payload != nullptr ? transfer.layout.bytes : static_cast<std::size_t>(flat.bytes);
  transfer.landing = parts_.links.buffers().lend(parts_.workers.place(flat.to_rank).stream.device, bytes);
  use_device(stream.device);
  if (transfer.payload != nullptr) {
    parts_.codec->pack(*transfer.payload, transfer.landing.data(), stream);
  } else if (bytes > 0) {
    transfer.source = parts_.links.buffers().lend(stream.device, bytes);
    use_device(stream.device);
    check_cuda(cudaMemcpyAsync(transfer.landing.data(), transfer.source.data(), bytes, cudaMemcpyDefault,
                               stream.stream),
               "cudaMemcpyAsync");
  }
}

Payload CudaLocalTransport::take(std::int32_t message) {
  State& transfer = state(message);
  const StreamView& stream = parts_.workers.place(flat_of(message).to_rank).stream;
  Payload content;
  if (transfer.payload != nullptr) {
    content = parts_.codec->unpack(transfer.layout, transfer.landing.data(), stream);
    wait_for(stream, {.stopped = [this] { return stopped_.load(); }});
    transfer.payload.reset();
  }
  parts_.links.buffers().give_back(std::move(transfer.landing));
  if (transfer.source.data() != nullptr) parts_.links.buffers().give_back(std::move(transfer.source));
  return content;
}

MessageTime CudaLocalTransport::transfer_time(std::int32_t message) const {
  const DeviceTime& device = device_times_[index(flat_of(message).from_rank)];
  return {.start_ns = device.of(moments_.moment(start_slot(message))),
          .end_ns = device.of(moments_.moment(end_slot(message))) + at(parts_.pace.latency, message)};
}

// --- collectives ------------------------------------------------------------------------------------------

void CudaLocalTransport::join(std::int32_t message, std::int32_t rank, SharedPayload contribution) {
  const std::scoped_lock lock(mutex_);
  state(message).members.emplace(rank, std::move(contribution));
  settle_collective(message, parts_.clock.now_ns());
}

/// One of the things that the collective waits for happened, or will have happened, at `time`.
void CudaLocalTransport::settle_collective(std::int32_t message, Ns time) {
  std::vector<std::pair<std::int32_t, Ns>> settled = {{message, time}};
  while (!settled.empty()) {
    const auto [id, when] = settled.back();
    settled.pop_back();
    State& collective = state(id);
    collective.time.start_ns = std::max(collective.time.start_ns, when);
    if (--collective.pending > 0) continue;
    collective.time.end_ns =
        collective.time.start_ns + at(parts_.pace.hold, id) + at(parts_.pace.latency, id);
    collective.started = true;
    const FlatProgram& flat = parts_.flat;
    for (std::int32_t m = flat_of(id).first; m != kNone; m = flat.next_member[index(m)]) {
      const std::int32_t next = flat.next_collective[index(m)];
      if (next != kNone) settled.emplace_back(flat.message[index(next)], collective.time.end_ns);
    }
  }
  changed_.notify_all();
}

std::vector<SharedPayload> CudaLocalTransport::collect(std::int32_t message, std::int32_t rank) {
  std::map<std::int32_t, SharedPayload> members;
  {
    const std::scoped_lock lock(mutex_);
    State& collective = state(message);
    members = collective.members;
    const bool last = std::cmp_equal(++collective.collected, members.size());
    if (last) collective.members.clear();
  }
  std::vector<SharedPayload> contributions;
  contributions.reserve(members.size());
  for (const auto& [member, contribution] : members) {
    contributions.push_back(brought_here(contribution, member, rank));
  }
  return contributions;
}

/// A copy on the device of rank `to`, where it lies on another.
SharedPayload CudaLocalTransport::brought_here(const SharedPayload& contribution, std::int32_t from,
                                               std::int32_t to) const {
  const StreamView& stream = parts_.workers.place(to).stream;
  if (contribution == nullptr || parts_.workers.place(from).stream.device == stream.device)
    return contribution;
  const DeviceLayout layout = parts_.codec->layout_of(*contribution);
  DeviceBuffer landing = parts_.links.buffers().lend(stream.device, layout.bytes);
  use_device(stream.device);
  parts_.codec->pack(*contribution, landing.data(), stream);
  SharedPayload copied = parts_.codec->unpack(layout, landing.data(), stream);
  wait_for(stream, {.stopped = [this] { return stopped_.load(); }});
  parts_.links.buffers().give_back(std::move(landing));
  return copied;
}

// --- waiting ----------------------------------------------------------------------------------------------

void CudaLocalTransport::await_start(std::int32_t message) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || state(message).started; });
  if (stopped_) throw Stopped{};
}

void CudaLocalTransport::sleep_until(Ns time_ns) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, parts_.clock.moment_of(time_ns), [&] { return stopped_.load(); });
  if (stopped_) throw Stopped{};
}

void CudaLocalTransport::wait(std::int32_t message, std::int32_t rank) {
  use_device(parts_.workers.place(rank).stream.device);
  await_start(message);
  if (flat_of(message).recv == kNone) {
    sleep_until(state(message).time.end_ns);
    return;
  }
  wait_for(*state(message).arrived, {.stopped = [this] { return stopped_.load(); }});
  if (at(parts_.pace.latency, message) > 0) sleep_until(transfer_time(message).end_ns);
}

void CudaLocalTransport::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

MessageTime CudaLocalTransport::time_of(std::int32_t message) const {
  return flat_of(message).recv == kNone ? states_[index(message)].time : transfer_time(message);
}

}  // namespace penstock
