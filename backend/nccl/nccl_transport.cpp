// Moves messages with NCCL. Each communicator has its own stream, so that a transfer that waits for its peer
// does not delay other operations. The rank's thread never waits for a stream. Streams wait for events:
//
//     rank 0, compute:            F0 | made
//     rank 0, stream of 0 -> 1:      waits for made | stamp | pack | ncclSend | stamp | ended
//     rank 1, stream of 0 -> 1:      waits for the slot | ncclRecv | ended
//     rank 1, compute:                                    waits for ended | unpack | consumed | F0
//
// Tests: tests/backend/standin.

#include "backend/nccl/nccl_transport.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/launch_count.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/rank_worker.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/session.hpp"
#include "backend/process/socket_transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

namespace {

/// The NCCL type that an element of a tensor has, and its size in bytes.
struct NumberType {
  ncclDataType_t type = ncclInt8;
  std::size_t bytes = 1;
};

NumberType type_of(DeviceNumber number) {
  switch (number) {
    case DeviceNumber::float64:
      return {ncclFloat64, 8};
    case DeviceNumber::float32:
      return {ncclFloat32, 4};
    case DeviceNumber::float16:
      return {ncclFloat16, 2};
    case DeviceNumber::bfloat16:
      return {ncclBfloat16, 2};
    case DeviceNumber::other:
      break;
  }
  throw std::runtime_error("gradients of a type that NCCL cannot sum");
}

void check_group(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + ncclGetErrorString(result));
}

}  // namespace

ChannelOptions nccl_channels() { return find_transport("nccl")->channels; }

NcclTransport::NcclTransport(const NcclTransportParts& parts)
    : parts_(parts),
      device_time_(parts.clock, parts.time_scale, parts.compute, parts.session.limits().stopped),
      moments_(2 * parts.flat.messages.size()),
      states_(parts.flat.messages.size()) {
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(states_.size()); ++id) {
    const FlatMessage& message = flat_of(id);
    const bool is_transfer = message.recv != kNone;
    // This rank takes no part in transfers between other ranks.
    if (is_transfer && message.from_rank != parts.rank && message.to_rank != parts.rank) continue;
    state(id).made.emplace(parts.compute.device);
    state(id).ended.emplace(parts.compute.device);
    if (is_transfer || parts.session.has(communicator_of(parts.flat, message))) learn_layout(id);
    if (!is_transfer || message.from_rank != parts.rank) continue;
    ++state(id).pending;
    if (message.next_at_sender != kNone) ++state(message.next_at_sender).pending;
  }
}

NcclTransport::~NcclTransport() {
  if (has_ended_) return;
  parts_.session.abort();
  end_or_give_up(parts_.compute);
}

NcclSession::Line& NcclTransport::line_of(std::int32_t message) {
  return parts_.session.line(communicator_of(parts_.flat, flat_of(message)));
}

/// Returns the limits of a wait for the message. The wait ends early if this rank, another rank or the
/// message's communicator has failed.
WaitLimits NcclTransport::limits_on(std::int32_t message) {
  const Communicator& communicator = *line_of(message).communicator;
  WaitLimits limits = parts_.session.limits();
  limits.stopped = [this, &communicator, of_session = limits.stopped] {
    communicator.check();
    return stopped_ || (of_session && of_session());
  };
  // There is no deadline here, because the watchdog can report which rank is late.
  limits.deadline = WaitLimits{}.deadline;
  return limits;
}

/// Enqueues four things on the message's stream: a kernel that records the start, the operations, a kernel
/// that records the end, and the event `ended`.
void NcclTransport::between_stamps(std::int32_t message, const std::function<void()>& operations) {
  const StreamView& stream = line_of(message).stream.view();
  launch_stamp(moments_.slot(start_slot(message)), stream.stream);
  operations();
  stamp_end(message);
}

void NcclTransport::stamp_end(std::int32_t message) {
  const StreamView& stream = line_of(message).stream.view();
  launch_stamp(moments_.slot(end_slot(message)), stream.stream);
  state(message).ended->record(stream);
  Launched& line = launched_[communicator_of(parts_.flat, flat_of(message))];
  line.messages.push_back(message);
  line.launches += launches_of(message);
}

std::int64_t NcclTransport::launches_of(std::int32_t message) {
  constexpr std::int64_t kBeside = 8;  // events, stamps, NCCL's kernel and the last event
  const State& of = state(message);
  const auto tensors = of.layout ? std::ssize(of.layout->runs) : 0;
  // A sum has a kernel for each tensor that it packs and one for each sequence of equal numbers.
  return kBeside + 2 * tensors + std::ssize(of.parts);
}

/// Returns false if the message's stream cannot take the launches of this message yet. A stream takes only a
/// limited number of launches, and a rank with a slow peer can enqueue many.
bool NcclTransport::has_room(std::int32_t message, std::int32_t) {
  Launched& line = launched_[communicator_of(parts_.flat, flat_of(message))];
  const std::int64_t wanted = launches_of(message);
  while (!line.messages.empty() && line.launches + wanted > kMostLaunches) {
    const std::int32_t oldest = line.messages.front();
    if (!state(oldest).ended->has_passed()) return false;
    line.launches -= launches_of(oldest);
    line.messages.pop_front();
  }
  return true;
}

/// Assigns the communicator's next slot to the message. Slots are used cyclically, in the order in which
/// operations are enqueued.
void NcclTransport::take_turn(std::int32_t message) {
  const NcclSession::Line& line = line_of(message);
  state(message).slot = turns_[line.communicator->plan()]++ % line.slots.size();
}

/// Records the event `made` of the message on the compute stream. When the event has passed, the data to
/// send are complete.
void NcclTransport::record_made(std::int32_t message) { state(message).made->record(parts_.compute); }

// --- layouts ----------------------------------------------------------------------------------------------

void NcclTransport::learn_layout(std::int32_t message) {
  const FlatMessage& flat = flat_of(message);
  const Layouts& layouts = parts_.session.layouts();
  state(message).bytes = parts_.session.bytes_of(message);
  if (flat.recv != kNone) {
    state(message).layout = layouts.of(message);
  } else if (parts_.flat.ops[index(flat.first)] == FlatOp::barrier) {
    return;
  } else if (parts_.flat.actions[index(flat.first)].kind == ActionKind::unshard) {
    state(message).parts = layouts.of_members(message);
    state(message).layout = state(message).parts[index(line_of(message).communicator->own_number())];
  } else {
    state(message).layout = layouts.of_sum(message);
  }
}

/// Throws if the payload's layout differs from the layout of its flow (all messages between the same stages
/// and ranks).
void NcclTransport::check_layout(std::int32_t message, const PayloadContent* content) {
  const AgreedLayout& agreed = state(message).layout;
  const bool is_alike =
      parts_.codec != nullptr && content != nullptr && agreed && parts_.codec->layout_of(*content) == *agreed;
  if (is_alike) return;
  // tell() compares the layouts again and throws if they differ.
  parts_.session.layouts().tell(message, content, parts_.session.limits());
}

// --- transfers --------------------------------------------------------------------------------------------

void NcclTransport::send(std::int32_t message, Payload payload) {
  forget_ended();
  record_made(message);
  state(message).payload = std::move(payload);
  if (group_) {
    group_->push_back(message);
    return;
  }
  for (std::int32_t head = message; head != kNone && --state(head).pending == 0;
       head = flat_of(head).next_at_sender) {
    give_transfers({head});
  }
}

/// Enqueues these transfers in one group of NCCL calls. Requires that no two of them are on one edge.
void NcclTransport::give_transfers(const std::vector<std::int32_t>& messages) {
  for (const std::int32_t message : messages) sends(message) ? begin_send(message) : begin_receive(message);
  std::vector<ncclResult_t> results;
  results.reserve(messages.size());
  if (messages.size() > 1) check_group(ncclGroupStart(), "ncclGroupStart");
  for (const std::int32_t message : messages) results.push_back(call_of(message));
  // The group must be ended even if a call in it has failed. The error of the failed call says more than the
  // error of ncclGroupEnd().
  const ncclResult_t end = messages.size() > 1 ? ncclGroupEnd() : ncclSuccess;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const bool has_failed = results[i] != ncclSuccess && results[i] != ncclInProgress;
    line_of(messages[i])
        .communicator->complete(messages.size() == 1 || has_failed ? results[i] : end,
                                sends(messages[i]) ? "ncclSend" : "ncclRecv", limits_on(messages[i]));
  }
  for (const std::int32_t message : messages) {
    stamp_end(message);
    if (sends(message)) in_flight_.push_back(message);
  }
}

void NcclTransport::begin_send(std::int32_t message) {
  const State& transfer = state(message);
  check_layout(message, transfer.payload.get());
  const NcclSession::Line& line = line_of(message);
  // Only the stream waits for the payload. The thread continues.
  transfer.made->hold_back(line.stream.view());
  launch_stamp(moments_.slot(start_slot(message)), line.stream.view().stream);
  // One buffer for each edge is sufficient. The same stream packs the next message, so it packs only after
  // this send.
  if (transfer.payload != nullptr)
    parts_.codec->pack(*transfer.payload, line.outgoing.data(), line.stream.view());
}

void NcclTransport::begin_receive(std::int32_t message) {
  take_turn(message);
  NcclSession::Line& line = line_of(message);
  // The slot's previous message must have been unpacked.
  line.slots[state(message).slot].consumed.hold_back(line.stream.view());
  if (parts_.flat.is_grouped(flat_of(message).recv)) state(message).made->hold_back(line.stream.view());
  launch_stamp(moments_.slot(start_slot(message)), line.stream.view().stream);
}

/// Calls ncclSend or ncclRecv for this rank's end of a transfer, and returns NCCL's result code.
ncclResult_t NcclTransport::call_of(std::int32_t message) {
  NcclSession::Line& line = line_of(message);
  const std::size_t bytes = state(message).bytes;
  const auto stream = line.stream.view().stream;
  if (sends(message))
    return ncclSend(line.outgoing.data(), bytes, ncclInt8, 1, line.communicator->handle(), stream);
  return ncclRecv(line.slots[state(message).slot].memory.data(), bytes, ncclInt8, 0,
                  line.communicator->handle(), stream);
}

std::vector<std::int32_t> NcclTransport::ready_behind(std::int32_t message) {
  std::vector<std::int32_t> ready;
  for (std::int32_t head = message; --state(head).pending == 0;) {
    if (head != message) ready.push_back(head);
    head = flat_of(head).next_at_sender;
    if (head == kNone) break;
  }
  return ready;
}

void NcclTransport::end_group(std::int32_t) {
  std::vector<std::int32_t> left = *std::exchange(group_, std::nullopt);
  std::vector<std::int32_t> behind;
  while (!left.empty()) {
    std::set<CommunicatorPlan> edges;
    std::vector<std::int32_t> together;
    std::vector<std::int32_t> later;
    for (const std::int32_t message : left) {
      const bool is_first = edges.insert(communicator_of(parts_.flat, flat_of(message))).second;
      (is_first ? together : later).push_back(message);
    }
    give_transfers(together);
    for (const std::int32_t message : together) {
      if (sends(message)) std::ranges::copy(ready_behind(message), std::back_inserter(behind));
    }
    left = std::move(later);
  }
  // Some SENDs outside of the group had to wait for a SEND of the group on the same edge. They can be
  // enqueued now.
  for (const std::int32_t message : behind) give_transfers({message});
}

/// Frees the payloads and collective contributions of messages that have ended.
void NcclTransport::forget_ended() {
  std::erase_if(in_flight_, [this](std::int32_t message) {
    if (!state(message).ended->has_passed()) return false;
    state(message).payload.reset();
    state(message).contribution.reset();
    return true;
  });
}

void NcclTransport::expect(std::int32_t message) {
  if (!group_) return give_transfers({message});
  record_made(message);
  group_->push_back(message);
}

Payload NcclTransport::take(std::int32_t message) {
  State& transfer = state(message);
  NcclSession::Slot& slot = line_of(message).slots[transfer.slot];
  Payload content;
  if (transfer.layout) content = parts_.codec->unpack(*transfer.layout, slot.memory.data(), parts_.compute);
  slot.consumed.record(parts_.compute);
  return content;
}

// --- collectives ------------------------------------------------------------------------------------------

void NcclTransport::join(std::int32_t message, std::int32_t, SharedPayload contribution) {
  forget_ended();
  record_made(message);
  State& collective = state(message);
  const FlatMessage& flat = flat_of(message);
  const bool is_barrier = parts_.flat.ops[index(flat.first)] == FlatOp::barrier;
  if (!is_barrier) check_layout(message, contribution.get());
  collective.brings = contribution != nullptr && parts_.codec->layout_of(*contribution).bytes > 0;
  collective.contribution = std::move(contribution);
  take_turn(message);
  const bool gathers = !is_barrier && parts_.flat.actions[index(flat.first)].kind == ActionKind::unshard;
  gathers ? give_gather(message) : give_sum(message);
  in_flight_.push_back(message);
}

/// Packs this rank's contribution to a sum into `data` and fills the rest with zeros. A member without a
/// microbatch, a null payload, and a barrier have only zeros. A barrier is a sum of one number.
void NcclTransport::pack_sum(std::int32_t message, std::uint8_t* data) {
  const State& collective = state(message);
  const StreamView& stream = line_of(message).stream.view();
  std::size_t packed = 0;
  if (collective.brings) {
    parts_.codec->pack(*collective.contribution, data, stream);
    packed = collective.layout->bytes;
  }
  if (packed == collective.bytes) return;
  check_cuda(cudaMemsetAsync(data + packed, 0, collective.bytes - packed, stream.stream), "cudaMemsetAsync");
}

/// Enqueues a REDUCE_GRAD or a barrier. NCCL runs both as an all-reduce.
void NcclTransport::give_sum(std::int32_t message) {
  const State& collective = state(message);
  NcclSession::Line& line = line_of(message);
  NcclSession::Slot& slot = line.slots[collective.slot];
  auto* data = static_cast<std::uint8_t*>(slot.memory.data());
  collective.made->hold_back(line.stream.view());
  slot.consumed.hold_back(line.stream.view());
  between_stamps(message, [&] {
    pack_sum(message, data);
    parts_.session.scatters(message) ? scatter(message, data) : reduce(message, data);
  });
}

/// Enqueues an all-reduce for each sequence of numbers of one type, because one NCCL call adds only numbers
/// of one type. All calls form one group, so NCCL runs them as one kernel. Without a layout, the numbers are
/// zeros.
void NcclTransport::reduce(std::int32_t message, std::uint8_t* data) {
  const State& collective = state(message);
  const NcclSession::Line& line = line_of(message);
  const std::vector<DeviceRun> zeros = {{.type = DeviceNumber::float32, .bytes = collective.bytes}};
  const std::vector<DeviceRun>& runs = collective.layout ? collective.layout->runs : zeros;
  for (const DeviceRun& run : runs) static_cast<void>(type_of(run.type));  // throws before the group begins
  std::vector<ncclResult_t> results;
  results.reserve(runs.size());
  if (runs.size() > 1) check_group(ncclGroupStart(), "ncclGroupStart");
  for (const DeviceRun& run : runs) {
    const NumberType number = type_of(run.type);
    results.push_back(ncclAllReduce(data, data, run.bytes / number.bytes, number.type, ncclSum,
                                    line.communicator->handle(), line.stream.view().stream));
    data += run.bytes;
  }
  // As in give_transfers(), the error of a failed call says more than the error of ncclGroupEnd().
  const ncclResult_t end = runs.size() > 1 ? ncclGroupEnd() : ncclSuccess;
  for (const ncclResult_t result : results) {
    const bool has_failed = result != ncclSuccess && result != ncclInProgress;
    line.communicator->complete(runs.size() == 1 || has_failed ? result : end, "ncclAllReduce",
                                limits_on(message));
  }
}

/// Enqueues a reduce-scatter in place: this rank's part of the sum is written to its position in the buffer
/// of the whole sum.
void NcclTransport::scatter(std::int32_t message, std::uint8_t* data) {
  const State& collective = state(message);
  const NcclSession::Line& line = line_of(message);
  const bool has_runs = collective.layout && !collective.layout->runs.empty();
  const NumberType number = type_of(has_runs ? collective.layout->runs.front().type : DeviceNumber::float32);
  const std::size_t members = line.communicator->plan().ranks.size();
  const std::size_t whole = collective.layout ? collective.layout->bytes : collective.bytes;
  const std::size_t part = (whole / number.bytes + members - 1) / members;
  line.communicator->complete(
      ncclReduceScatter(data, data + part * number.bytes * index(line.communicator->own_number()), part,
                        number.type, ncclSum, line.communicator->handle(), line.stream.view().stream),
      "ncclReduceScatter", limits_on(message));
}

/// Enqueues an UNSHARD, as one all-gather in place. All members contribute as many bytes as the member with
/// the most weights.
void NcclTransport::give_gather(std::int32_t message) {
  const State& collective = state(message);
  NcclSession::Line& line = line_of(message);
  NcclSession::Slot& slot = line.slots[collective.slot];
  collective.made->hold_back(line.stream.view());
  slot.consumed.hold_back(line.stream.view());
  between_stamps(message, [&] {
    auto* data = static_cast<std::uint8_t*>(slot.memory.data());
    std::uint8_t* own = data + collective.bytes * index(line.communicator->own_number());
    if (collective.brings) parts_.codec->pack(*collective.contribution, own, line.stream.view());
    line.communicator->complete(ncclAllGather(own, data, collective.bytes, ncclInt8,
                                              line.communicator->handle(), line.stream.view().stream),
                                "ncclAllGather", limits_on(message));
  });
}

/// Returns the result of a collective. For a sum, the list has one payload. For an UNSHARD, it has one
/// payload for each member, which holds the member's part of the weights.
std::vector<SharedPayload> NcclTransport::collect(std::int32_t message, std::int32_t) {
  const State& collective = state(message);
  NcclSession::Slot& slot = line_of(message).slots[collective.slot];
  const auto* data = static_cast<const std::uint8_t*>(slot.memory.data());
  const std::vector<AgreedLayout> sum = {collective.layout};
  std::vector<SharedPayload> brought;
  for (const AgreedLayout& layout : collective.parts.empty() ? sum : collective.parts) {
    const std::uint8_t* part = data + collective.bytes * brought.size();
    brought.push_back(layout ? parts_.codec->unpack(*layout, part, parts_.compute) : nullptr);
  }
  slot.consumed.record(parts_.compute);
  return brought;
}

// --- waiting ----------------------------------------------------------------------------------------------

void NcclTransport::wait(std::int32_t message, std::int32_t) {
  state(message).ended->hold_back(parts_.compute);
}

std::vector<MessageTime> NcclTransport::own_times() {
  std::vector<MessageTime> times;
  for (const std::int32_t message : messages_of(parts_.flat, parts_.rank)) {
    wait_for(*state(message).ended, limits_on(message));
    times.push_back(time_by_stamps(message));
  }
  forget_ended();
  has_ended_ = true;
  return times;
}

MessageTime NcclTransport::time_by_stamps(std::int32_t message) const {
  return {.start_ns = device_time_.of(moments_.moment(start_slot(message))),
          .end_ns = device_time_.of(moments_.moment(end_slot(message)))};
}

MessageTime NcclTransport::time_of(std::int32_t message) const { return time_by_stamps(message); }

// Finds all layouts before the first step. The layout of a module's output depends on the layouts of its
// inputs. So the rank runs its list once with a transport that sends only layouts and no tensors:
//
//     rank 0   F0 -> publishes the layout of its activations   wait for B0: reads that of gradients
//     rank 1   wait for F0: reads it, takes zeros   F0 B0 -> publishes the layout of its gradients
//
// In the timed run, no rank then waits for a layout between two NCCL operations. Each rank can therefore
// launch its operations in the order of its program.

namespace {

/// A transport that only exchanges the layouts of payloads before the run. It publishes the layouts of sent
/// payloads. For a received message it returns zeros in the layout that the sender has published. wait()
/// waits only for that layout.
class SilentTransport : public Transport {
 public:
  explicit SilentTransport(const RehearsalParts& parts) : parts_(parts) {}

  ChannelOptions channels() const override { return nccl_channels(); }
  void send(std::int32_t message, Payload payload) override {
    parts_.layouts.tell(message, payload.get(), parts_.limits);
  }
  void expect(std::int32_t) override {}
  /// Waits until the action has ended. A stream takes only a limited number of launches.
  void release(std::int32_t) override { wait_for(parts_.compute, parts_.limits); }
  void join(std::int32_t message, std::int32_t, SharedPayload contribution) override {
    if (!is_barrier(message)) parts_.layouts.tell(message, contribution.get(), parts_.limits);
  }
  void wait(std::int32_t message, std::int32_t) override {
    if (is_barrier(message)) return;
    if (flat_of(message).recv != kNone) {
      parts_.layouts.hear(message, parts_.limits);
    } else {
      parts_.layouts.hear_members(message, parts_.limits);
    }
  }
  Payload take(std::int32_t message) override { return zeros(parts_.layouts.of(message)); }
  std::vector<SharedPayload> collect(std::int32_t message, std::int32_t) override {
    std::vector<SharedPayload> brought;
    if (parts_.flat.actions[index(flat_of(message).first)].kind != ActionKind::unshard) {
      brought.push_back(zeros(parts_.layouts.of_sum(message)));
      return brought;
    }
    for (const AgreedLayout& layout : parts_.layouts.of_members(message)) brought.push_back(zeros(layout));
    return brought;
  }
  void stop() override {}
  MessageTime time_of(std::int32_t) const override { return {}; }

 private:
  const FlatMessage& flat_of(std::int32_t message) const { return parts_.flat.messages[index(message)]; }
  bool is_barrier(std::int32_t message) const {
    return flat_of(message).recv == kNone &&
           parts_.flat.ops[index(flat_of(message).first)] == FlatOp::barrier;
  }

  Payload zeros(const AgreedLayout& layout) {
    if (!layout) return nullptr;
    if (zeros_.empty() || zeros_.back().bytes() < layout->bytes) {
      // The shorter buffers are not freed, because copies from them may still be running.
      zeros_.emplace_back(parts_.compute.device, std::max<std::size_t>(layout->bytes, 1));
    }
    use_device(parts_.compute.device);
    return parts_.codec.unpack(*layout, zeros_.back().data(), parts_.compute);
  }

  const RehearsalParts& parts_;
  // Buffers of zeros. Each is larger than the previous one. Kernels may still read all of them.
  std::vector<DeviceBuffer> zeros_;
};

}  // namespace

void rehearse(const RehearsalParts& parts) {
  SilentTransport transport(parts);
  ProgramTimes times = empty_times(parts.flat);
  Progress progress;
  // This run needs no compute queue, because it is not timed. It needs no watchdog, because each wait has a
  // deadline.
  RankWorker({.program = parts.program,
              .flat = parts.flat,
              .modules = parts.modules,
              .transport = transport,
              .clock = parts.clock},
             parts.rank, times, progress)
      .run(std::stop_source().get_token());
  wait_for(parts.compute, parts.limits);  // all work must end before the zeros are freed
}

}  // namespace penstock
