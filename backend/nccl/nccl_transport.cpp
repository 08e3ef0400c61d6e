// Each communicator has a stream of its own, so that a transfer that waits for its peer holds back nothing
// else:
//
//   rank 0, stream of 0 -> 1:   stamp | pack | ncclSend | stamp | event
//   rank 1, stream of 0 -> 1:                  ncclRecv | event      wait(), then unpack on the compute
//   stream

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

#include <fmt/format.h>
#include <nccl.h>

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
constexpr std::size_t kLeastBytes = 4;  // a message without bytes still has to arrive
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
  for (const FlatMessage& message : parts.flat.messages) {
    if (message.recv == kNone || message.from_rank != parts.rank) continue;
    ++state(parts.flat.message[index(message.first)]).pending;
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
  state(message).ended.emplace(stream.device);
  state(message).ended->record(stream);
  state(message).given = true;
}

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
  forget_ended_sends();
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
  transfer.buffers.push_back(parts_.session.buffers().lend(parts_.compute.device, bytes));
  const NcclSession::Line& line = line_of(message);
  void* data = transfer.buffers.front().data();
  between_stamps(message, [&] {
    if (transfer.payload != nullptr) parts_.codec->pack(*transfer.payload, data, line.stream.view());
    line.communicator->settle(
        ncclSend(data, bytes, ncclInt8, 1, line.communicator->handle(), line.stream.view().stream),
        "ncclSend", limits_on(message));
  });
  sends_.push_back(message);
}

/// Lets go of what sends held that have ended.
void NcclTransport::forget_ended_sends() {
  std::erase_if(sends_, [this](std::int32_t message) {
    State& transfer = state(message);
    if (!transfer.ended->has_passed()) return false;
    transfer.payload.reset();
    for (DeviceBuffer& buffer : transfer.buffers) parts_.session.buffers().give_back(std::move(buffer));
    transfer.buffers.clear();
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
  transfer.buffers.push_back(parts_.session.buffers().lend(parts_.compute.device, bytes));
  const NcclSession::Line& line = line_of(message);
  between_stamps(message, [&] {
    line.communicator->settle(ncclRecv(transfer.buffers.front().data(), bytes, ncclInt8, 0,
                                       line.communicator->handle(), line.stream.view().stream),
                              "ncclRecv", limits_on(message));
  });
  return true;
}

Payload NcclTransport::take(std::int32_t message) {
  State& transfer = state(message);
  Payload content;
  if (transfer.layout) {
    content = parts_.codec->unpack(*transfer.layout, transfer.buffers.front().data(), parts_.compute);
    wait_for(parts_.compute, limits_on(message));
  }
  for (DeviceBuffer& buffer : transfer.buffers) parts_.session.buffers().give_back(std::move(buffer));
  transfer.buffers.clear();
  return content;
}

// --- collectives ------------------------------------------------------------------------------------------

void NcclTransport::join(std::int32_t message, std::int32_t, SharedPayload contribution) {
  State& collective = state(message);
  collective.contribution = std::move(contribution);
  if (collective.contribution != nullptr) {
    collective.layout = parts_.codec->layout_of(*collective.contribution);
  }
  const CommunicatorPlan plan = communicator_of(parts_.flat, flat_of(message));
  waiting_[plan].push_back(message);
  give_waiting(plan);
}

/// REDUCE_GRAD. Barriers and members without a payload sum one number, so as to meet.
void NcclTransport::give_sum(std::int32_t message) {
  State& collective = state(message);
  const std::size_t bytes = std::max(kLeastBytes, collective.layout ? collective.layout->bytes : 0);
  collective.buffers.push_back(parts_.session.buffers().lend(parts_.compute.device, bytes));
  const NcclSession::Line& line = line_of(message);
  auto* data = static_cast<std::uint8_t*>(collective.buffers.front().data());
  const DeviceRun one_number{.type = DeviceNumber::float32, .bytes = kLeastBytes};
  between_stamps(message, [&] {
    if (collective.layout) parts_.codec->pack(*collective.contribution, data, line.stream.view());
    for (const DeviceRun& run : collective.layout ? collective.layout->runs : std::vector{one_number}) {
      const NumberType number = type_of(run.type);
      line.communicator->settle(ncclAllReduce(data, data, run.bytes / number.bytes, number.type, ncclSum,
                                              line.communicator->handle(), line.stream.view().stream),
                                "ncclAllReduce", limits_on(message));
      data += run.bytes;
    }
  });
}

/// UNSHARD. False while a member has not said how its part lies.
bool NcclTransport::give_gather(std::int32_t message) {
  State& collective = state(message);
  const NcclSession::Line& line = line_of(message);
  const std::vector<std::int32_t>& members = line.communicator->plan().ranks;
  const std::int32_t stage = parts_.flat.actions[index(flat_of(message).first)].stage;
  const auto flow_of_member = [stage](std::int32_t rank) {
    return fmt::format("weights of stage {}, rank {}", stage, rank);
  };
  agree_on(flow_of_member(parts_.rank), collective.layout);
  std::vector<DeviceLayout> layouts;
  for (const std::int32_t member : members) {
    const auto layout = agreed_layout(flow_of_member(member));
    if (!layout) return false;
    layouts.push_back(layout->value_or(DeviceLayout{.text = "", .runs = {}, .bytes = kLeastBytes}));
    layouts.back().bytes = std::max(layouts.back().bytes, kLeastBytes);
  }
  for (const DeviceLayout& layout : layouts) {
    collective.buffers.push_back(parts_.session.buffers().lend(parts_.compute.device, layout.bytes));
  }
  between_stamps(message, [&] {
    void* own = collective.buffers[index(line.communicator->own_number())].data();
    if (collective.layout) parts_.codec->pack(*collective.contribution, own, line.stream.view());
    for (std::size_t member = 0; member < members.size(); ++member) {
      void* data = collective.buffers[member].data();
      line.communicator->settle(
          ncclBroadcast(data, data, layouts[member].bytes, ncclInt8, static_cast<int>(member),
                        line.communicator->handle(), line.stream.view().stream),
          "ncclBroadcast", limits_on(message));
    }
  });
  collective.parts = std::move(layouts);
  return true;
}

std::vector<SharedPayload> NcclTransport::collect(std::int32_t message, std::int32_t) {
  State& collective = state(message);
  std::vector<SharedPayload> brought;
  for (std::size_t i = 0; i < collective.buffers.size(); ++i) {
    if (!collective.layout) {
      brought.push_back(nullptr);
      continue;
    }
    const DeviceLayout& layout = collective.parts.empty() ? *collective.layout : collective.parts[i];
    brought.push_back(parts_.codec->unpack(layout, collective.buffers[i].data(), parts_.compute));
  }
  wait_for(parts_.compute, limits_on(message));
  for (DeviceBuffer& buffer : collective.buffers) parts_.session.buffers().give_back(std::move(buffer));
  collective.buffers.clear();
  collective.contribution.reset();
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
  give_sum(message);
  return true;
}

void NcclTransport::wait(std::int32_t message, std::int32_t) {
  const CommunicatorPlan plan = communicator_of(parts_.flat, flat_of(message));
  const WaitLimits limits = limits_on(message);
  for (give_waiting(plan); !state(message).given; give_waiting(plan)) {
    if (limits.stopped()) throw Stopped{};
    std::this_thread::sleep_for(kBetweenLooks);
  }
  wait_for(*state(message).ended, limits);
}

std::vector<MessageTime> NcclTransport::own_times() {
  std::vector<MessageTime> times;
  for (const std::int32_t message : messages_of(parts_.flat, parts_.rank)) {
    wait(message, parts_.rank);
    times.push_back(time_by_stamps(message));
  }
  forget_ended_sends();
  has_ended_ = true;
  return times;
}

MessageTime NcclTransport::time_by_stamps(std::int32_t message) const {
  return {.start_ns = device_time_.of(moments_.moment(start_slot(message))),
          .end_ns = device_time_.of(moments_.moment(end_slot(message)))};
}

MessageTime NcclTransport::time_of(std::int32_t message) const { return time_by_stamps(message); }

}  // namespace penstock
