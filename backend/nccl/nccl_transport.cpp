// Each communicator has a stream of its own, so that a transfer that waits for its peer holds back nothing
// else. The rank's thread waits for none of them: streams wait for events.
//
//   rank 0, compute:            F0 | made
//   rank 0, stream of 0 -> 1:      waits for made | stamp | pack | ncclSend | stamp | ended
//   rank 1, stream of 0 -> 1:      waits for the slot | ncclRecv | ended
//   rank 1, compute:                                    waits for ended | unpack | consumed | F0

#include "backend/nccl/nccl_transport.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include "backend/cuda/cuda_error.hpp"
#include "backend/cuda/device_codec.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/communicator.hpp"
#include "backend/nccl/communicator_plan.hpp"
#include "backend/nccl/session.hpp"
#include "backend/process/socket_transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/transports.hpp"

namespace penstock {
namespace {

constexpr std::chrono::microseconds kBetweenLooks(100);
constexpr const char* kNull = "null";

std::size_t start_slot(std::int32_t message) { return 2 * index(message); }
std::size_t end_slot(std::int32_t message) { return 2 * index(message) + 1; }

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

}  // namespace

ChannelOptions nccl_channels() { return find_transport("nccl")->channels; }

NcclTransport::NcclTransport(const NcclTransportParts& parts)
    : parts_(parts),
      device_time_(parts.clock, parts.time_scale, parts.compute),
      moments_(2 * parts.flat.messages.size()),
      states_(parts.flat.messages.size()) {
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(states_.size()); ++id) {
    const FlatMessage& message = flat_of(id);
    const bool is_transfer = message.recv != kNone;
    if (is_transfer && message.from_rank != parts.rank && message.to_rank != parts.rank) continue;
    state(id).made.emplace(parts.compute.device);
    state(id).ended.emplace(parts.compute.device);
    if (!is_transfer || message.from_rank != parts.rank) continue;
    ++state(id).pending;
    if (message.next_at_sender != kNone) ++state(message.next_at_sender).pending;
  }
}

NcclTransport::~NcclTransport() {
  if (!has_ended_) parts_.session.abort();
}

NcclSession::Line& NcclTransport::line_of(std::int32_t message) {
  return parts_.session.line(communicator_of(parts_.flat, flat_of(message)));
}

/// A wait for it ends early when the run has failed, here, elsewhere, or on the message's communicator.
WaitLimits NcclTransport::limits_on(std::int32_t message) {
  const Communicator& communicator = *line_of(message).communicator;
  WaitLimits limits = parts_.session.limits();
  limits.stopped = [this, &communicator, of_session = limits.stopped] {
    communicator.check();
    return stopped_ || (of_session && of_session());
  };
  limits.deadline = WaitLimits{}.deadline;  // the watchdog knows better who is late
  return limits;
}

/// Stamps, operations and the event on the message's stream.
void NcclTransport::between_stamps(std::int32_t message, const std::function<void()>& operations) {
  const StreamView& stream = line_of(message).stream.view();
  launch_stamp(moments_.slot(start_slot(message)), stream.stream);
  operations();
  launch_stamp(moments_.slot(end_slot(message)), stream.stream);
  state(message).ended->record(stream);
  state(message).given = true;
}

/// Slots are used in turns, in the order in which operations are given.
void NcclTransport::take_turn(std::int32_t message) {
  const NcclSession::Line& line = line_of(message);
  const CommunicatorPlan& plan = line.communicator->plan();
  const std::size_t each = line.slots.size() / line.turns;
  state(message).slot = turns_[plan]++ % line.turns * each;
}

/// The sender's end is ready when what the compute stream has been given so far has ended.
void NcclTransport::record_made(std::int32_t message) { state(message).made->record(parts_.compute); }

// --- layouts ----------------------------------------------------------------------------------------------

/// Nothing when nobody has said yet; inside nothing when the payloads are null.
std::optional<std::optional<DeviceLayout>> NcclTransport::agreed_layout(const std::string& flow) {
  if (parts_.codec == nullptr) return std::optional<DeviceLayout>();
  auto& layouts = parts_.session.layouts;
  if (const auto known = layouts.find(flow); known != layouts.end()) return known->second;
  const auto told = parts_.session.store().look_up("layout/" + flow);
  if (!told) return std::nullopt;
  std::optional<DeviceLayout> layout;
  if (*told != kNull) layout = parts_.codec->layout_of_text(*told);
  return layouts.emplace(flow, std::move(layout)).first->second;
}

void NcclTransport::agree_on(const std::string& flow, const std::optional<DeviceLayout>& layout) {
  if (parts_.codec == nullptr) return;
  const auto [known, is_new] = parts_.session.layouts.emplace(flow, layout);
  if (is_new) {
    parts_.session.store().set("layout/" + flow, layout ? layout->text : kNull);
  } else if (known->second != layout) {
    throw std::runtime_error(fmt::format(
        "messages of {} differ in their tensors' types or sizes, which the nccl transport does not do",
        flow));
  }
}

std::string NcclTransport::flow_of_transfer(std::int32_t message) const {
  const FlatMessage& flat = flat_of(message);
  const StageMessage moved = message_of(parts_.flat.actions[index(flat.first)]);
  return fmt::format("{} of stage {} for stage {}, rank {} to rank {}",
                     moved.flow == Flow::gradient ? "gradients" : "activations", moved.from, moved.to,
                     flat.from_rank, flat.to_rank);
}

// --- transfers --------------------------------------------------------------------------------------------

void NcclTransport::send(std::int32_t message, Payload payload) {
  forget_ended();
  record_made(message);
  state(message).payload = std::move(payload);
  for (std::int32_t head = message; head != kNone && --state(head).pending == 0;
       head = flat_of(head).next_at_sender) {
    give_send(head);
  }
}

void NcclTransport::give_send(std::int32_t message) {
  State& transfer = state(message);
  if (transfer.payload != nullptr) {
    if (parts_.codec == nullptr)
      throw std::logic_error("the modules send tensors, but nothing can pack them");
    transfer.layout = parts_.codec->layout_of(*transfer.payload);
  }
  agree_on(flow_of_transfer(message), transfer.layout);
  const std::size_t bytes =
      std::max(kLeastBytes,
               transfer.layout ? transfer.layout->bytes : static_cast<std::size_t>(flat_of(message).bytes));
  NcclSession::Line& line = line_of(message);
  void* data = parts_.session.grown(line.outgoing, bytes);
  transfer.made->hold_back(line.stream.view());
  between_stamps(message, [&] {
    if (transfer.payload != nullptr) parts_.codec->pack(*transfer.payload, data, line.stream.view());
    line.communicator->settle(
        ncclSend(data, bytes, ncclInt8, 1, line.communicator->handle(), line.stream.view().stream),
        "ncclSend", limits_on(message));
  });
  in_flight_.push_back(message);
}

/// Lets go of what was packed and has left.
void NcclTransport::forget_ended() {
  std::erase_if(in_flight_, [this](std::int32_t message) {
    if (!state(message).ended->has_passed()) return false;
    state(message).payload.reset();
    state(message).contribution.reset();
    return true;
  });
}

void NcclTransport::expect(std::int32_t message) {
  const CommunicatorPlan plan = communicator_of(parts_.flat, flat_of(message));
  waiting_[plan].push_back(message);
  give_waiting(plan);
}

/// False while the sender has not said how its tensors lie.
bool NcclTransport::give_receive(std::int32_t message) {
  const auto layout = agreed_layout(flow_of_transfer(message));
  if (!layout) return false;
  State& transfer = state(message);
  transfer.layout = *layout;
  const std::size_t bytes =
      std::max(kLeastBytes,
               transfer.layout ? transfer.layout->bytes : static_cast<std::size_t>(flat_of(message).bytes));
  NcclSession::Line& line = line_of(message);
  take_turn(message);
  NcclSession::Slot& slot = line.slots[transfer.slot];
  void* data = parts_.session.grown(slot.memory, bytes);
  slot.consumed.hold_back(line.stream.view());
  between_stamps(message, [&] {
    line.communicator->settle(
        ncclRecv(data, bytes, ncclInt8, 0, line.communicator->handle(), line.stream.view().stream),
        "ncclRecv", limits_on(message));
  });
  return true;
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
  collective.contribution = std::move(contribution);
  if (collective.contribution != nullptr) {
    collective.layout = parts_.codec->layout_of(*collective.contribution);
  }
  const CommunicatorPlan plan = communicator_of(parts_.flat, flat_of(message));
  waiting_[plan].push_back(message);
  give_waiting(plan);
}

/// By member, in the communicator's order; nothing while one of them has not said how its part lies.
std::optional<std::vector<std::optional<DeviceLayout>>> NcclTransport::members_layouts(
    std::int32_t message, const std::string& what) {
  const std::int32_t stage = parts_.flat.actions[index(flat_of(message).first)].stage;
  const auto flow_of_member = [&](std::int32_t rank) {
    return fmt::format("{} of stage {}, rank {}", what, stage, rank);
  };
  agree_on(flow_of_member(parts_.rank), state(message).layout);
  std::vector<std::optional<DeviceLayout>> layouts;
  for (const std::int32_t member : line_of(message).communicator->plan().ranks) {
    auto layout = agreed_layout(flow_of_member(member));
    if (!layout) return std::nullopt;
    layouts.push_back(*std::move(layout));
  }
  return layouts;
}

/// REDUCE_GRAD. Barriers and members without a payload sum one number, so as to meet. False while a member
/// has not said how its gradient lies: one that has had no microbatch has none, and takes part with zeros.
bool NcclTransport::give_sum(std::int32_t message) {
  State& collective = state(message);
  const bool has_own = collective.layout && collective.layout->bytes > 0;
  if (parts_.flat.ops[index(flat_of(message).first)] != FlatOp::barrier) {
    const auto layouts = members_layouts(message, "gradients");
    if (!layouts) return false;
    for (const auto& layout : *layouts) {
      if (!has_own && layout && layout->bytes > 0) collective.layout = layout;
    }
  }
  const std::size_t bytes = std::max(kLeastBytes, collective.layout ? collective.layout->bytes : 0);
  NcclSession::Line& line = line_of(message);
  take_turn(message);
  NcclSession::Slot& slot = line.slots[collective.slot];
  auto* data = static_cast<std::uint8_t*>(parts_.session.grown(slot.memory, bytes));
  collective.made->hold_back(line.stream.view());
  slot.consumed.hold_back(line.stream.view());
  between_stamps(message, [&] {
    if (has_own) {
      parts_.codec->pack(*collective.contribution, data, line.stream.view());
    } else {
      check_cuda(cudaMemsetAsync(data, 0, bytes, line.stream.view().stream), "cudaMemsetAsync");
    }
    const DeviceRun one_number{.type = DeviceNumber::float32, .bytes = kLeastBytes};
    for (const DeviceRun& run : collective.layout ? collective.layout->runs : std::vector{one_number}) {
      const NumberType number = type_of(run.type);
      line.communicator->settle(ncclAllReduce(data, data, run.bytes / number.bytes, number.type, ncclSum,
                                              line.communicator->handle(), line.stream.view().stream),
                                "ncclAllReduce", limits_on(message));
      data += run.bytes;
    }
  });
  in_flight_.push_back(message);
  return true;
}

/// UNSHARD. False while a member has not said how its part lies.
bool NcclTransport::give_gather(std::int32_t message) {
  State& collective = state(message);
  auto layouts = members_layouts(message, "weights");
  if (!layouts) return false;
  NcclSession::Line& line = line_of(message);
  take_turn(message);
  NcclSession::Slot* slots = &line.slots[collective.slot];
  collective.made->hold_back(line.stream.view());
  for (std::size_t member = 0; member < layouts->size(); ++member) {
    collective.parts.push_back((*layouts)[member].value_or(DeviceLayout{.text = "", .runs = {}, .bytes = 0}));
    DeviceLayout& part = collective.parts.back();
    part.bytes = std::max(part.bytes, kLeastBytes);
    parts_.session.grown(slots[member].memory, part.bytes);
    slots[member].consumed.hold_back(line.stream.view());
  }
  between_stamps(message, [&] {
    void* own = slots[index(line.communicator->own_number())].memory.data();
    if (collective.layout) parts_.codec->pack(*collective.contribution, own, line.stream.view());
    for (std::size_t member = 0; member < collective.parts.size(); ++member) {
      void* data = slots[member].memory.data();
      line.communicator->settle(
          ncclBroadcast(data, data, collective.parts[member].bytes, ncclInt8, static_cast<int>(member),
                        line.communicator->handle(), line.stream.view().stream),
          "ncclBroadcast", limits_on(message));
    }
  });
  in_flight_.push_back(message);
  return true;
}

/// A sum, or one part of each member.
std::vector<SharedPayload> NcclTransport::collect(std::int32_t message, std::int32_t) {
  State& collective = state(message);
  NcclSession::Slot* slots = &line_of(message).slots[collective.slot];
  std::vector<SharedPayload> brought;
  for (std::size_t i = 0; i < std::max<std::size_t>(collective.parts.size(), 1); ++i) {
    if (!collective.layout) {
      brought.push_back(nullptr);
      continue;
    }
    const DeviceLayout& layout = collective.parts.empty() ? *collective.layout : collective.parts[i];
    brought.push_back(parts_.codec->unpack(layout, slots[i].memory.data(), parts_.compute));
    slots[i].consumed.record(parts_.compute);
  }
  return brought;
}

// --- waiting ----------------------------------------------------------------------------------------------

/// Gives the communicator's stream what program order has reached, in that order, as far as it can be given.
void NcclTransport::give_waiting(const CommunicatorPlan& plan) {
  Queue& waiting = waiting_[plan];
  while (!waiting.empty() && try_to_give(waiting.front())) waiting.pop_front();
}

bool NcclTransport::try_to_give(std::int32_t message) {
  const FlatMessage& flat = flat_of(message);
  if (flat.recv != kNone) return give_receive(message);
  const bool is_barrier = parts_.flat.ops[index(flat.first)] == FlatOp::barrier;
  if (!is_barrier && parts_.flat.actions[index(flat.first)].kind == ActionKind::unshard) {
    return give_gather(message);
  }
  return give_sum(message);
}

void NcclTransport::wait(std::int32_t message, std::int32_t) {
  const CommunicatorPlan plan = communicator_of(parts_.flat, flat_of(message));
  const WaitLimits limits = limits_on(message);
  for (give_waiting(plan); !state(message).given; give_waiting(plan)) {
    if (limits.stopped()) throw Stopped{};
    std::this_thread::sleep_for(kBetweenLooks);
  }
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

}  // namespace penstock
