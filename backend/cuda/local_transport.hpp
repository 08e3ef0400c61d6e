#pragma once
// The transport between workers of one process that compute on GPUs: copies on a stream of each directed
// pair.

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

/// What lasts from run to run: streams, and buffers for messages on their way. Made before the first run, but
/// for the buffers of tensors, whose sizes the first messages show.
class CudaLinks {
 public:
  /// Where messages of one directed pair land, in turns.
  struct Slot {
    DeviceBuffer landing;
    CudaEvent consumed;  ///< the receiver's last use of it
  };

  /// `workers` must outlive it. What messages and contributions to collectives take is by `costs`.
  CudaLinks(const FlatProgram& flat, const CudaWorkers& workers, const CostTable& costs);

  const StreamView& stream(std::int32_t from_rank, std::int32_t to_rank) const {
    return links_.at({from_rank, to_rank}).stream.view();
  }
  /// Of the collectives whose first member is that rank.
  const StreamView& collective_stream(std::int32_t rank) const { return collectives_.at(rank).view(); }
  const LinkSlots& slots() const { return slots_; }
  /// The message's, of at least that many bytes.
  Slot& slot_of(const FlatMessage& message, std::int32_t id, std::size_t bytes);
  /// Zeros to send where only bytes are moved.
  DeviceBuffer& source_of(const FlatMessage& message);
  /// On the rank's device, of at least that many bytes: where what a member on another device gives arrives,
  /// one after the other on the rank's compute stream.
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
  std::map<std::int32_t, DeviceBuffer> bounces_;  // by rank; none where all members share its device
};

/// All references must outlive the transport.
struct CudaLocalParts {
  const FlatProgram& flat;  ///< laid out for local_channels()
  const LinkPace& pace;     ///< of emulated links; empty: messages take what the copies take
  const Clock& clock;
  double time_scale;  ///< of the clock
  const CudaWorkers& workers;
  CudaLinks& links;
  const DeviceCodec* codec;  ///< null where all payloads are null
};

/// What the transport declares.
ChannelOptions local_channels();

/// Nothing here waits for a GPU: streams wait for events. A transfer waits on its pair's stream for its
/// producer and goes into a slot on the receiver's device, from which the receiver's stream copies it: the
/// memory of one worker's stream is never freed into another's pool. It is given to the stream when its slot
/// has been given back. A null payload moves as many bytes as the program says. Where links are emulated, a
/// kernel on the same stream holds the link for its time, counted from the start of the copy, and one on the
/// receiver's adds the latency. Times are the device's. Of a collective each member reads what all have
/// given; it takes as long as the emulated links say. Ranks compute on their workers' streams
/// (stream_queue.hpp).
class CudaLocalTransport : public Transport {
 public:
  explicit CudaLocalTransport(const CudaLocalParts& parts);
  /// Waits for what the streams still do: nothing of ours runs without end.
  ~CudaLocalTransport() override;

  ChannelOptions channels() const override { return local_channels(); }
  void send(std::int32_t message, Payload payload) override;
  void expect(std::int32_t) override {}   // channels do not block
  void release(std::int32_t) override {}  // nor are they bounded
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
    bool given = false;              // to its stream
    std::optional<CudaEvent> ended;  // on that stream
    // Of a transfer:
    std::optional<CudaEvent> made;  // by its producer
    Payload payload;                // the sender's, until the copy has ended
    bool carries = false;           // tensors, which lie so:
    DeviceLayout layout;
    // Of a collective:
    std::map<std::int32_t, Member> members;  // by rank
  };

  State& state(std::int32_t message) { return states_[static_cast<std::size_t>(message)]; }
  const FlatMessage& flat_of(std::int32_t message) const {
    return parts_.flat.messages[static_cast<std::size_t>(message)];
  }
  /// The sender, or the first member.
  std::int32_t starter_of(std::int32_t message) const;
  const StreamView& compute(std::int32_t rank) const { return parts_.workers.place(rank).stream; }
  bool is_transfer(std::int32_t message) const { return flat_of(message).recv != kNone; }
  void prepare(std::int32_t message);
  /// Waits for other threads, not for the GPU: until an event has been recorded nobody can wait for it.
  void await_given(std::int32_t message);
  void settle_transfer(std::int32_t message);
  /// To the pair's stream: its wait, its copy and its end.
  void give_transfer(std::int32_t message);
  void give_copy(std::int32_t message, const StreamView& stream);
  void give_end(std::int32_t message, const StreamView& stream);
  void forget_ended_sends(std::int32_t rank);
  void settle_collective(std::int32_t message);
  void give_collective(std::int32_t message);
  SharedPayload brought_here(const SharedPayload& contribution, std::int32_t from, std::int32_t to);

  CudaLocalParts parts_;
  std::vector<DeviceTime> device_times_;        // by rank
  PinnedMoments moments_;                       // start and end, by message
  PinnedMoments scratch_;                       // by rank: ends of latencies, which nobody reads
  std::vector<State> states_;                   // by message
  std::vector<std::deque<std::int32_t>> sent_;  // by rank: whose payloads are still held
  std::vector<std::int32_t> last_collective_;   // by rank: given to a stream

  std::mutex mutex_;  // guards states_, sent_, last_collective_ and the links' slots
  std::condition_variable changed_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace penstock
