#pragma once
// One rank's end of the transport over NCCL.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "backend/cuda/device_codec.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/device_time.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/layouts.hpp"
#include "backend/nccl/session.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// The settings of one rank's transport. All references must outlive the transport.
struct NcclTransportParts {
  const FlatProgram& flat;  ///< must be built for nccl_channels()
  std::int32_t rank = 0;
  const Clock& clock;
  double time_scale = 1;  ///< time scale of the clock
  StreamView compute;     ///< stream of the rank's worker
  NcclSession& session;
  const DeviceCodec* codec = nullptr;  ///< null if all payloads are null
};

/// Returns the channel options that the transport declares.
ChannelOptions nccl_channels();

/// A transport over NCCL. NCCL's messages have no names: the n-th ncclSend of a communicator meets its n-th
/// ncclRecv.
///
/// A transfer is enqueued when its SEND and those before it on its edge have been reached. It waits on the
/// stream for its producer. Its ncclRecv is enqueued when program order reaches the RECV. So the order in
/// which a rank launches is its program's (launch_order.hpp), whatever its peers do. A null payload moves as
/// many bytes as the program and the costs say.
///
/// REDUCE_GRAD is an all-reduce; of a sharded stage it is a reduce-scatter. collect() then returns the whole
/// buffer, of which only the rank's own part (of equal parts) is the sum. UNSHARD is a broadcast by each
/// member. A member without a gradient adds zeros.
///
/// The session must be ready, so that it knows all layouts. The rank computes on `compute`
/// (stream_queue.hpp). Only own_times() waits for the GPU. All calls except stop() come from the rank's one
/// thread.
class NcclTransport : public Transport {
 public:
  explicit NcclTransport(const NcclTransportParts& parts);
  /// Aborts the session unless own_times() has seen all messages end.
  ~NcclTransport() override;

  ChannelOptions channels() const override { return nccl_channels(); }
  void send(std::int32_t message, Payload payload) override;
  void expect(std::int32_t message) override;
  void release(std::int32_t) override {}
  void join(std::int32_t message, std::int32_t rank, SharedPayload contribution) override;
  void wait(std::int32_t message, std::int32_t rank) override;
  void check() override { parts_.session.check(); }
  Payload take(std::int32_t message) override;
  std::vector<SharedPayload> collect(std::int32_t message, std::int32_t rank) override;
  void stop() override { stopped_ = true; }
  MessageTime time_of(std::int32_t message) const override;

  /// Returns the times of the messages for which this rank accounts, when all have ended. Throws Stopped.
  std::vector<MessageTime> own_times();

 private:
  struct State {
    std::int32_t pending = 0;           // events that a transfer of this rank still waits for
    Payload payload;                    // of a transfer that this rank sends, until it has ended
    SharedPayload contribution;         // of a collective, until it has ended
    std::size_t bytes = 0;              // bytes that it moves; of an UNSHARD those of the largest part
    AgreedLayout layout;                // of an UNSHARD: layout of this rank's part
    std::vector<AgreedLayout> parts{};  // of an UNSHARD: layout of each member's part
    bool brings = false;                // of a collective: whether the contribution is not null
    std::size_t slot = 0;               // first slot of a receive or a collective
    std::optional<CudaEvent> made;      // on the compute stream: after what is sent
    std::optional<CudaEvent> ended;     // on the message's stream: after the operation
  };
  using Queue = std::deque<std::int32_t>;

  State& state(std::int32_t message) { return states_[static_cast<std::size_t>(message)]; }
  const FlatMessage& flat_of(std::int32_t message) const {
    return parts_.flat.messages[static_cast<std::size_t>(message)];
  }
  NcclSession::Line& line_of(std::int32_t message);
  WaitLimits limits_on(std::int32_t message);
  // Each of these enqueues a whole operation on the message's stream, from the wait for the compute stream to
  // the event.
  void give_send(std::int32_t message);
  void give_receive(std::int32_t message);
  void give_sum(std::int32_t message);
  void give_gather(std::int32_t message);
  void pack_sum(std::int32_t message, std::uint8_t* data);
  void reduce(std::int32_t message, std::uint8_t* data);
  void scatter(std::int32_t message, std::uint8_t* data);
  /// Stores the layout before the run, so that no name is looked up while the clock runs.
  void learn_layout(std::int32_t message);
  void check_layout(std::int32_t message, const PayloadContent* content);
  void between_stamps(std::int32_t message, const std::function<void()>& operations);
  void record_made(std::int32_t message);
  void take_turn(std::int32_t message);
  void forget_ended();
  MessageTime time_by_stamps(std::int32_t message) const;

  NcclTransportParts parts_;
  DeviceTime device_time_;
  PinnedMoments moments_;                          // start and end of each message
  std::vector<State> states_;                      // by message
  Queue in_flight_;                                // messages whose payloads and contributions are still held
  std::map<CommunicatorPlan, std::size_t> turns_;  // number of receives and collectives so far
  bool has_ended_ = false;
  std::atomic<bool> stopped_ = false;
};

}  // namespace penstock
