#pragma once
// The transport between workers of one process that compute on GPUs. Messages are copies on a stream of each
// ordered pair of ranks.

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

#include "backend/cuda/device_codec.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/device_time.hpp"
#include "backend/cuda/link_slots.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/link_pace.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

/// The resources that all runs share: streams and message buffers. They are made before the first run. Only
/// the sizes of tensor buffers are set by the first messages.
class CudaLinks {
 public:
  /// A buffer of one ordered pair. Messages use the slots in turn.
  struct Slot {
    DeviceBuffer landing;
    CudaEvent consumed;  ///< after the receiver's last use of the buffer
  };

  /// Makes the resources. `workers` must outlive this object. `costs` give the sizes of messages and of
  /// contributions to collectives.
  CudaLinks(const FlatProgram& flat, const CudaWorkers& workers, const CostTable& costs);

  const StreamView& stream(std::int32_t from_rank, std::int32_t to_rank) const {
    return links_.at({from_rank, to_rank}).stream.view();
  }
  /// Returns the stream of the collectives whose first member is this rank.
  const StreamView& collective_stream(std::int32_t rank) const { return collectives_.at(rank).view(); }
  const LinkSlots& slots() const { return slots_; }
  /// Returns the message's slot, with at least that many bytes.
  Slot& slot_of(const FlatMessage& message, std::int32_t id, std::size_t bytes);
  /// Returns zeros to send for a null payload.
  DeviceBuffer& source_of(const FlatMessage& message);
  /// Returns a buffer on the rank's device with at least that many bytes. Contributions of members on other
  /// devices are copied into it, one after the other on the rank's compute stream.
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
  std::map<std::int32_t, DeviceBuffer> bounces_;  // by rank; absent if all members share its device
};

/// The settings of a transport. All references must outlive it.
struct CudaLocalParts {
  const FlatProgram& flat;  ///< must be built for local_channels()
  const LinkPace& pace;     ///< times of emulated links; empty: messages take as long as their copies
  const Clock& clock;
  double time_scale;  ///< time scale of the clock
  const CudaWorkers& workers;
  CudaLinks& links;
  const DeviceCodec* codec;  ///< null if all payloads are null
};

/// Returns the channel options that the transport declares.
ChannelOptions local_channels();

/// A transport on streams. No thread waits for a GPU; streams wait for events.
///
/// A transfer waits on its pair's stream for its producer and is copied into a slot on the receiver's device.
/// The receiver's stream copies it from there, so that memory of one worker's stream is never freed into
/// another's pool. It is enqueued when its slot is free. A null payload moves as many bytes as the program
/// says.
///
/// If links are emulated, a kernel on the same stream holds the link for its time, counted from the start of
/// the copy. Another kernel on the receiver's stream adds the latency. Times are the device's. In a
/// collective each member reads what all have contributed; it takes as long as the emulated links say. Ranks
/// compute on their workers' streams (stream_queue.hpp).
class CudaLocalTransport : public Transport {
 public:
  explicit CudaLocalTransport(const CudaLocalParts& parts);
  /// Waits for the work on the streams. None of it runs forever.
  ~CudaLocalTransport() override;

  ChannelOptions channels() const override { return local_channels(); }
  void send(std::int32_t message, Payload payload) override;
  void expect(std::int32_t) override {}   // channels do not block
  void release(std::int32_t) override {}  // channels are not bounded
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
    bool given = false;              // whether it is enqueued on its stream
    std::optional<CudaEvent> ended;  // event on that stream
    // The members below are of a transfer.
    std::optional<CudaEvent> made;  // event after its producer
    Payload payload;                // the sender's payload, until the copy has ended
    bool carries = false;           // whether it carries tensors, with the layout below
    DeviceLayout layout;
    // The member below is of a collective.
    std::map<std::int32_t, Member> members;  // by rank
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
  /// Waits until the message is enqueued, because no stream can wait for an event that is not recorded. It
  /// waits for other threads, not for the GPU.
  void await_given(std::int32_t message);
  void satisfy_transfer(std::int32_t message);
  /// Enqueues a transfer on the pair's stream: its wait, its copy and its end.
  void give_transfer(std::int32_t message);
  void give_copy(std::int32_t message, const StreamView& stream);
  void give_end(std::int32_t message, const StreamView& stream);
  void forget_ended_sends(std::int32_t rank);
  void satisfy_collective(std::int32_t message);
  void give_collective(std::int32_t message);
  SharedPayload brought_here(const SharedPayload& contribution, std::int32_t from, std::int32_t to);

  CudaLocalParts parts_;
  std::vector<DeviceTime> device_times_;        // by rank
  PinnedMoments moments_;                       // start and end of each message
  PinnedMoments scratch_;                       // by rank: ends of latencies, which are never read
  std::vector<State> states_;                   // by message
  std::vector<std::deque<std::int32_t>> sent_;  // by rank: messages whose payloads are still held
  std::vector<std::int32_t> last_collective_;   // by rank: last collective that was enqueued

  std::mutex mutex_;  // guards states_, sent_, last_collective_ and the slots of the links
  std::condition_variable changed_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace penstock
