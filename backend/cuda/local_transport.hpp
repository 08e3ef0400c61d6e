#pragma once
// Computes the number of receive buffers ("slots") that messages need between each ordered pair of ranks.
// Threads run ahead of their GPUs, so several messages may be in flight. The computation needs no GPU.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/stream_queue.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

struct LinkSlots {
  using Edge = std::pair<std::int32_t, std::int32_t>;  // (sending rank, receiving rank)
  std::map<Edge, std::int32_t> count;                  ///< number of buffers at the receiver, for each edge
  std::vector<std::int32_t> slot;                      ///< the buffer of each message; kNone for collectives
  std::vector<std::int32_t> next;  ///< for each message, the next message in the same buffer, or kNone
};

/// Returns for each pair of ranks a number of slots (receive buffers) that is sufficient to avoid deadlock.
/// A thread waits for a free slot before it enqueues a message, so with too few slots threads could wait
/// for each other. Requires a program that does not hang on directed channels.
LinkSlots link_slots(const FlatProgram& flat);

// Moves messages between workers of one process that compute on GPUs. Each ordered pair of ranks has a
// stream, on which its messages are copied. backend/nccl is used instead if each GPU has its own process.

/// The streams and message buffers of CudaLocalTransport. They are created before the first run, and all
/// runs use them. The size of a buffer for tensors is determined by the first messages.
class CudaLinks {
 public:
  /// A receive buffer for the messages from one rank to another. These messages use their slots in turn.
  struct Slot {
    DeviceBuffer landing;
    CudaEvent consumed;  ///< event after the receiver's last use of the buffer
  };

  /// Makes the streams and buffers. `workers` must outlive this object. `costs` states the sizes of
  /// messages and of contributions to collectives.
  CudaLinks(const FlatProgram& flat, const CudaWorkers& workers, const CostTable& costs);

  const StreamView& stream(std::int32_t from_rank, std::int32_t to_rank) const {
    return links_.at({from_rank, to_rank}).stream.view();
  }
  /// Returns the stream on which collectives with `rank` as their first member run.
  const StreamView& collective_stream(std::int32_t rank) const { return collectives_.at(rank).view(); }
  const LinkSlots& slots() const { return slots_; }
  /// Returns the slot of the message with number `id`. Enlarges the slot's buffer if it has fewer than
  /// `bytes` bytes.
  Slot& slot_of(const FlatMessage& message, std::int32_t id, std::size_t bytes);
  /// Returns a buffer of zeros, which is sent in place of a null payload.
  DeviceBuffer& source_of(const FlatMessage& message);
  /// Returns a buffer of at least `bytes` bytes on the rank's device. In a collective, the rank's compute
  /// stream copies contributions from other devices into it, one after the other.
  DeviceBuffer& bounce_of(std::int32_t rank, std::size_t bytes);

 private:
  struct Link {
    CudaStream stream;
    DeviceBuffer source;
    std::vector<Slot> slots;
  };
  void make_bounces(const FlatProgram& flat, const FlatMessage& collective, const CudaWorkers& workers,
                    const CostTable& costs);

  LinkSlots slots_;
  std::map<LinkSlots::Edge, Link> links_;
  std::map<std::int32_t, CudaStream> collectives_;
  // The buffers that bounce_of() returns, by rank. A rank has no buffer if all members of its collectives are
  // on its device.
  std::map<std::int32_t, DeviceBuffer> bounces_;
};

/// The settings of a CudaLocalTransport. All references must outlive the transport.
struct CudaLocalParts {
  const FlatProgram&
      flat;              ///< flat program, built for local_channels(), or for these with groups of transfers
  const LinkPace& pace;  ///< times of emulated links; if empty, a message takes as long as its copy
  const Clock& clock;
  double time_scale;  ///< number of host ns in one ns of `clock`
  const CudaWorkers& workers;
  CudaLinks& links;
  const DeviceCodec* codec;  ///< codec of the payloads; null if all payloads are null
};

/// Returns the channel options that CudaLocalTransport supports.
ChannelOptions local_channels();

/// A transport on CUDA streams. No thread waits for a GPU. Instead, streams wait for events.
/// A transfer is enqueued on the stream of its pair of ranks when its slot (receive buffer) is free. The
/// stream first waits for the action that makes the payload. If the ranks post the transfer in groups, it
/// waits until both have reached their group. It then copies the payload into the slot on the receiver's
/// device. The receiver's stream copies it from the slot into its own memory. So no memory of one stream is
/// freed into the pool of another stream. If the payload is null, the transport copies as many bytes as the
/// program states.
/// If links are emulated, a kernel on the pair's stream occupies the link for the stated time from the
/// start of the copy. Another kernel on the receiver's stream adds the latency. Times are measured by the
/// device. In a collective, each member reads the contributions of all members, and the emulated links
/// determine the collective's duration. Ranks compute on their workers' streams (stream_queue.hpp).
class CudaLocalTransport : public Transport {
 public:
  explicit CudaLocalTransport(const CudaLocalParts& parts);
  ~CudaLocalTransport() override;
  /// Waits until all work on the streams of messages and ranks has ended, or gives the devices up after a
  /// limited time. It must be called before any memory of a run is freed, because freeing waits for the whole
  /// device without a limit.
  void end_or_give_up_all();

  ChannelOptions channels() const override { return local_channels(); }
  void send(std::int32_t message, Payload payload) override;
  void expect(std::int32_t message) override;
  void release(std::int32_t) override {}  // nothing to do, because channels have no size limit
  void join(std::int32_t message, std::int32_t rank, SharedPayload contribution) override;
  void wait(std::int32_t message, std::int32_t rank) override;
  Payload take(std::int32_t message) override;
  std::vector<SharedPayload> collect(std::int32_t message, std::int32_t rank) override;
  void finish(std::int32_t rank) override;
  void stop() override;
  MessageTime time_of(std::int32_t message) const override;

 private:
  struct Member {
    SharedPayload contribution;
    CudaEvent joined;
  };
  struct State {
    std::int32_t pending = 0;
    bool given = false;              // true if the message is enqueued on its stream
    std::optional<CudaEvent> ended;  // event on the message's stream after its end
    // The fields below are used only for transfers.
    std::optional<CudaEvent> made;    // event after the action that makes the payload
    std::optional<CudaEvent> posted;  // event when the receiver has reached the group with the RECV
    Payload payload;                  // sender's payload, which is stored until the copy has ended
    bool carries = false;             // true if the message has tensors in the layout below
    DeviceLayout layout;
    // The field below is used only for collectives.
    std::map<std::int32_t, Member> members;  // members of the collective, by rank
  };

  State& state(std::int32_t message) { return states_[static_cast<std::size_t>(message)]; }
  const FlatMessage& flat_of(std::int32_t message) const {
    return parts_.flat.messages[static_cast<std::size_t>(message)];
  }
  /// Returns the rank that starts the message: the sender of a transfer, or the first member of a collective.
  std::int32_t starter_of(std::int32_t message) const;
  const StreamView& compute(std::int32_t rank) const { return parts_.workers.place(rank).stream; }
  bool is_transfer(std::int32_t message) const { return flat_of(message).recv != kNone; }
  void prepare(std::int32_t message);
  /// Waits until another thread has enqueued the message. This is necessary because a stream cannot wait
  /// for an event that is not recorded yet. Does not wait for the GPU.
  void await_given(std::int32_t message);
  void satisfy_transfer(std::int32_t message);
  /// Enqueues a transfer on the stream of its pair of ranks. This consists of the wait for its payload, the
  /// copy, and the event of its end.
  void give_transfer(std::int32_t message);
  void give_copy(std::int32_t message, const StreamView& stream);
  void give_end(std::int32_t message, const StreamView& stream);
  void forget_ended_sends(std::int32_t rank);
  void satisfy_collective(std::int32_t message);
  void give_collective(std::int32_t message);
  SharedPayload brought_here(const SharedPayload& contribution, std::int32_t from, std::int32_t to);

  CudaLocalParts parts_;
  std::vector<DeviceTime> device_times_;  // timer of each rank's device
  PinnedMoments moments_;                 // start and end of each message, written by kernels
  PinnedMoments scratch_;      // one element for each rank; kernels write times into it that are not used
  std::vector<State> states_;  // state of each message
  // The messages with payloads that are still stored, by sending rank.
  std::vector<std::deque<std::int32_t>> sent_;
  std::vector<std::int32_t> last_collective_;  // last collective that was enqueued, by rank

  std::mutex mutex_;  // guards states_, sent_, last_collective_ and the slots of the links
  std::condition_variable changed_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace penstock
