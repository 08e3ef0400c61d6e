// Finds all layouts before the first step. A layout follows from what a module makes of its inputs, and this
// from their layouts, stage by stage. So the list is run with a transport that moves no tensor:
//
//     rank 0   F0 -> publishes the layout of its activations   wait for B0: reads that of gradients
//     rank 1   wait for F0: reads it, takes zeros   F0 B0 -> publishes the layout of its gradients
//
// Afterwards no rank has to wait for a layout between two NCCL operations, so their order is the program's.

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

/// A transport that publishes the layout of what it is given, and returns zeros with the layout that the
/// sender has published. wait() waits only for that layout.
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
      // A longer buffer is added and the old ones stay, because copies from them may still be running.
      zeros_.emplace_back(parts_.compute.device, std::max<std::size_t>(layout->bytes, 1));
    }
    use_device(parts_.compute.device);
    return parts_.codec.unpack(*layout, zeros_.back().data(), parts_.compute);
  }

  const RehearsalParts& parts_;
  std::vector<DeviceBuffer> zeros_;  // each larger than the one before; kernels may still read them
};

}  // namespace

void rehearse(const RehearsalParts& parts) {
  SilentTransport transport(parts);
  ProgramTimes times = empty_times(parts.flat);
  Progress progress;
  // No queue and no supervisor are needed: nothing is timed, and each wait has its own limit.
  RankWorker({.program = parts.program,
              .flat = parts.flat,
              .modules = parts.modules,
              .transport = transport,
              .clock = parts.clock},
             parts.rank, times, progress)
      .run(std::stop_source().get_token());
  wait_for(parts.compute, parts.limits);  // also before the zeros are freed
}

}  // namespace penstock
