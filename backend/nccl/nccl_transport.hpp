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

/// All references must outlive the transport.
struct NcclTransportParts {
  const FlatProgram& flat;  ///< laid out for nccl_channels()
  std::int32_t rank = 0;
  const Clock& clock;
  double time_scale = 1;  ///< of the clock
  StreamView compute;     ///< of the rank's worker
  NcclSession& session;
  const DeviceCodec* codec = nullptr;  ///< null where all payloads are null
};

/// What the transport declares.
ChannelOptions nccl_channels();

/// Messages of NCCL have no names: the n-th ncclSend of a communicator meets its n-th ncclRecv. A transfer is
/// given to its stream when its SEND has been reached and those before it on its edge have been, and waits
/// there for its producer; its ncclRecv is given to the stream when program order reaches the RECV. So the
/// order in which a rank launches is its program's (launch_order.hpp), whatever its peers do. A null payload
/// moves as many bytes as the program and the costs say. REDUCE_GRAD is an all-reduce, of a sharded
/// stage a reduce-scatter: collect() then brings the whole, in which the rank's own of equal parts is the
/// sum. UNSHARD is a broadcast by each member. A member without a gradient adds zeros. Requires a session
/// that is ready: it knows how all tensors lie. The rank computes on `compute` (stream_queue.hpp): nothing
/// waits for the GPU but own_times(). All calls but stop() come from the rank's one thread.
class NcclTransport : public Transport {
 public:
  explicit NcclTransport(const NcclTransportParts& parts);
  /// Aborts the session unless all of own_times() had ended.
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

  /// Of the messages that this rank accounts for, when all have ended. Throws Stopped.
  std::vector<MessageTime> own_times();

 private:
  struct State {
    std::int32_t pending = 0;           // of a transfer that this rank sends
    Payload payload;                    // of a transfer that this rank sends, until it has ended
    SharedPayload contribution;         // of a collective, until it has ended
    std::size_t bytes = 0;              // that it moves; of UNSHARD: the most of a part
    AgreedLayout layout;                // of UNSHARD: of the rank's own part
    std::vector<AgreedLayout> parts{};  // of UNSHARD: each member's
    bool brings = false;                // of a collective: the contribution is more than null
    std::size_t slot = 0;               // the first that it uses, of a receive or a collective
    std::optional<CudaEvent> made;      // on the compute stream: what is sent
    std::optional<CudaEvent> ended;     // on the message's
  };
  using Queue = std::deque<std::int32_t>;

  State& state(std::int32_t message) { return states_[static_cast<std::size_t>(message)]; }
  const FlatMessage& flat_of(std::int32_t message) const {
    return parts_.flat.messages[static_cast<std::size_t>(message)];
  }
  NcclSession::Line& line_of(std::int32_t message);
  WaitLimits limits_on(std::int32_t message);
  // Each gives the message's stream what it needs, from its wait for the compute stream to its event.
  void give_send(std::int32_t message);
  void give_receive(std::int32_t message);
  void give_sum(std::int32_t message);
  void give_gather(std::int32_t message);
  void pack_sum(std::int32_t message, std::uint8_t* data);
  void reduce(std::int32_t message, std::uint8_t* data);
  void scatter(std::int32_t message, std::uint8_t* data);
  /// Before the run, so that nothing is looked up by its name while the clock runs.
  void learn_layout(std::int32_t message);
  void check_layout(std::int32_t message, const PayloadContent* content);
  void between_stamps(std::int32_t message, const std::function<void()>& operations);
  void record_made(std::int32_t message);
  void take_turn(std::int32_t message);
  void forget_ended();
  MessageTime time_by_stamps(std::int32_t message) const;

  NcclTransportParts parts_;
  DeviceTime device_time_;
  PinnedMoments moments_;                          // start and end, by message
  std::vector<State> states_;                      // by message
  Queue in_flight_;                                // whose payloads and contributions are still held
  std::map<CommunicatorPlan, std::size_t> turns_;  // receives and collectives so far
  bool has_ended_ = false;
  std::atomic<bool> stopped_ = false;
};

}  // namespace penstock
