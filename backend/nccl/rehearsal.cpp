// Finds all layouts before the first step. The layout of a module's output depends on the layouts of its
// inputs, stage by stage. The rank therefore runs its list with a transport that sends layouts and no
// tensors:
//
//     rank 0   F0 -> publishes the layout of its activations   wait for B0: reads that of gradients
//     rank 1   wait for F0: reads it, takes zeros   F0 B0 -> publishes the layout of its gradients
//
// Afterwards no rank waits for a layout between two NCCL operations, so it launches them in the order of its
// program.

#include "backend/nccl/rehearsal.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <vector>

#include "backend/cuda/device_codec.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/progress.hpp"
#include "backend/executor/rank_worker.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/layouts.hpp"
#include "backend/nccl/nccl_transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

/// A transport that publishes the layouts of sent payloads. It delivers zeros in the layout that the sender
/// has published. wait() waits only for that layout.
class SilentTransport : public Transport {
 public:
  explicit SilentTransport(const RehearsalParts& parts) : parts_(parts) {}

  ChannelOptions channels() const override { return nccl_channels(); }
  void send(std::int32_t message, Payload payload) override {
    parts_.layouts.tell(message, payload.get(), parts_.limits);
  }
  void expect(std::int32_t) override {}
  void release(std::int32_t) override {}
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
  // Buffers of zeros, each larger than the one before. Kernels may still read all of them.
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
