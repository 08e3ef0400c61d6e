#pragma once
// Moves the messages of one rank with NCCL. cuda/local_transport.hpp moves messages inside one process
// instead.

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/stream_queue.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/session.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The settings of an NcclTransport. All references must outlive the transport.
struct NcclTransportParts {
  const FlatProgram&
      flat;  ///< flat program, built for nccl_channels(), or for these with groups of transfers
  std::int32_t rank = 0;
  const Clock& clock;
  double time_scale = 1;  ///< number of host ns in one ns of `clock`
  StreamView compute;     ///< stream on which the rank computes
  NcclSession& session;
  const DeviceCodec* codec = nullptr;  ///< codec of the payloads; null if all payloads are null
};

/// Returns the channel options that NcclTransport supports.
ChannelOptions nccl_channels();

/// A transport over NCCL. NCCL's messages have no names: the n-th ncclRecv of a communicator receives the
/// data of its n-th ncclSend. The sender enqueues a transfer when it has reached the transfer's SEND and all
/// earlier SENDs of the same edge. The stream then waits for the action that computes the payload. The
/// receiver enqueues the ncclRecv when it reaches the RECV in its list. The order in which a rank launches
/// operations therefore depends only on its program (channel_check.hpp). If the payload is null, as many
/// bytes are sent as the program and the costs state. A group of transfers becomes one group of NCCL calls
/// (ncclGroupStart, ncclGroupEnd). These calls are enqueued when the rank has reached the whole group. If
/// several messages of the group are on one edge, a group of calls has only one of them. The second message
/// then goes into a second group of calls, and so on. REDUCE_GRAD is an all-reduce, or a reduce-scatter if
/// the stage is sharded. After a reduce-scatter, collect() returns the whole buffer, but only the rank's own
/// part has the sum. An UNSHARD is one all-gather. In a sum, a member without a gradient adds zeros. Requires
/// that session.make_ready() has returned, so that all layouts are known. The rank computes on the stream
/// `compute` (stream_queue.hpp). Only own_times() waits for the GPU. Only the rank's thread calls the
/// functions, except stop().
class NcclTransport : public Transport {
 public:
  explicit NcclTransport(const NcclTransportParts& parts);
  /// Aborts the session unless own_times() has returned.
  ~NcclTransport() override;

  ChannelOptions channels() const override { return nccl_channels(); }
  void send(std::int32_t message, Payload payload) override;
  void expect(std::int32_t message) override;
  void begin_group(std::int32_t) override { group_.emplace(); }
  void end_group(std::int32_t) override;
  void release(std::int32_t) override {}
  void join(std::int32_t message, std::int32_t rank, SharedPayload contribution) override;
  bool has_room(std::int32_t message, std::int32_t rank) override;
  void wait(std::int32_t message, std::int32_t rank) override;
  void check() override { parts_.session.check(); }
  Payload take(std::int32_t message) override;
  std::vector<SharedPayload> collect(std::int32_t message, std::int32_t rank) override;
  void stop() override { stopped_ = true; }
  MessageTime time_of(std::int32_t message) const override;

  /// Waits until all messages that this rank reports have ended. Returns the times of these messages.
  /// Throws Stopped.
  std::vector<MessageTime> own_times();

 private:
  struct State {
    std::int32_t pending = 0;  // number of events for which a transfer of this rank still waits
    Payload payload;  // payload of a transfer that this rank sends; stored until the transfer has ended
    SharedPayload contribution;  // contribution to a collective; stored until the collective has ended
    std::size_t bytes = 0;       // bytes of the message; for an UNSHARD, bytes of the largest contribution
    // Layout of the payload; for an UNSHARD, layout of the weights that this rank contributes.
    AgreedLayout layout;
    // Layout of the weights that each member contributes; only for an UNSHARD.
    std::vector<AgreedLayout> parts{};
    bool brings = false;   // true if the contribution to a collective is not null
    std::size_t slot = 0;  // slot that a receive or a collective uses
    // For a sender, the event on the compute stream after the data to send were made. In a group, the event
    // when the rank has reached the group.
    std::optional<CudaEvent> made;
    std::optional<CudaEvent> ended;  // event on the message's stream after the operation
  };
  using Queue = std::deque<std::int32_t>;
  /// The messages of a communicator that may still be running, and the number of their launches. A message is
  /// removed when has_room() finds that it has ended.
  struct Launched {
    Queue messages;
    std::int64_t launches = 0;
  };

  State& state(std::int32_t message) { return states_[static_cast<std::size_t>(message)]; }
  const FlatMessage& flat_of(std::int32_t message) const {
    return parts_.flat.messages[static_cast<std::size_t>(message)];
  }
  NcclSession::Line& line_of(std::int32_t message);
  WaitLimits limits_on(std::int32_t message);
  // Each of these functions enqueues whole operations on the messages' streams: the wait for the compute
  // stream, the NCCL calls, and the event `ended`.
  void give_transfers(const std::vector<std::int32_t>& messages);
  void begin_send(std::int32_t message);
  void begin_receive(std::int32_t message);
  ncclResult_t call_of(std::int32_t message);
  bool sends(std::int32_t message) const { return flat_of(message).from_rank == parts_.rank; }
  /// Records that the rank has reached a SEND. All earlier SENDs on the edge must have been reached before.
  /// Returns the later SENDs on the edge that can now be enqueued, because only this SEND has delayed them.
  std::vector<std::int32_t> ready_behind(std::int32_t message);
  void give_sum(std::int32_t message);
  void give_gather(std::int32_t message);
  void pack_sum(std::int32_t message, std::uint8_t* data);
  void reduce(std::int32_t message, std::uint8_t* data);
  void scatter(std::int32_t message, std::uint8_t* data);
  /// Copies the layout and the size of the message into its State. It is called before the run, so that the
  /// timed run needs no look-up in maps.
  void learn_layout(std::int32_t message);
  void check_layout(std::int32_t message, const PayloadContent* content);
  void between_stamps(std::int32_t message, const std::function<void()>& operations);
  void stamp_end(std::int32_t message);
  /// Returns an upper bound on the number of launches (kernels, copies and events) that the message needs on
  /// its stream.
  std::int64_t launches_of(std::int32_t message);
  void record_made(std::int32_t message);
  void take_turn(std::int32_t message);
  void forget_ended();
  MessageTime time_by_stamps(std::int32_t message) const;

  NcclTransportParts parts_;
  DeviceTime device_time_;
  PinnedMoments moments_;      // start and end of each message, written by kernels
  std::vector<State> states_;  // state of each message
  // The transfers of the group that the worker is posting, in list order; absent outside of groups.
  std::optional<std::vector<std::int32_t>> group_;
  Queue in_flight_;  // messages with payloads or contributions that are still stored
  // The number of receives or collectives so far, by communicator.
  std::map<CommunicatorPlan, std::size_t> turns_;
  std::map<CommunicatorPlan, Launched> launched_;
  bool has_ended_ = false;
  std::atomic<bool> stopped_ = false;
};

// A run of the rank's list before the first step. It sends no tensors. From this run, all ranks learn the
// layouts.

/// The arguments of rehearse(). All references must be valid during the call.
struct RehearsalParts {
  const Program& program;
  const FlatProgram& flat;
  std::int32_t rank = 0;
  StageModules& modules;  ///< stage modules, which cannot be used after the call
  const Clock& clock;
  StreamView compute;
  const DeviceCodec& codec;
  Layouts& layouts;
  WaitLimits limits;  ///< limits of the wait for each layout of a peer
};

/// Runs the rank's modules once before the timed runs, to find the layouts of their outputs, and publishes
/// these layouts. The inputs are zeros in the layouts that the peers publish. After the call, `layouts`
/// contains the layouts of all messages of this rank. Throws the exceptions of modules; Stopped; or
/// std::runtime_error after a deadline.
void rehearse(const RehearsalParts& parts);

}  // namespace penstock
