#pragma once
// The transport between workers of one process that compute on GPUs: copies on a stream of each directed
// pair.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cuda/device_codec.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/device_time.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/link_pace.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// What lasts from run to run: the streams of the directed pairs that exchange anything, and the buffers.
class CudaLinks {
 public:
  /// `workers` must outlive it.
  CudaLinks(const FlatProgram& flat, const CudaWorkers& workers);

  const StreamView& stream(std::int32_t from_rank, std::int32_t to_rank) const {
    return streams_.at({from_rank, to_rank}).view();
  }
  BufferStock& buffers() { return buffers_; }

 private:
  std::map<std::pair<std::int32_t, std::int32_t>, CudaStream> streams_;
  BufferStock buffers_;
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

/// A transfer goes into a buffer on the receiver's device, from which take() makes tensors of the receiver's:
/// the memory of one worker's stream is never freed into another's pool. A null payload moves as many bytes
/// as the program says. Where links are emulated, a kernel on the same stream holds the link for its time,
/// counted from the start of the copy, and the latency is added by the receiver. Times are the device's. Of a
/// collective each member reads what all have given; it takes as long as the emulated links say.
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
  void stop() override;
  MessageTime time_of(std::int32_t message) const override;

 private:
  struct State {
    std::int32_t pending = 0;  // of a transfer: touched by its sender's thread alone
    bool started = false;      // guarded by mutex_
    MessageTime time;          // of a collective
    // Of a transfer:
    Payload payload;  // the sender's, until the copy has ended
    DeviceLayout layout;
    DeviceBuffer source;  // of a null payload
    DeviceBuffer landing;
    std::optional<CudaEvent> arrived;
    // Of a collective:
    std::map<std::int32_t, SharedPayload> members;  // by rank
    std::int32_t collected = 0;
  };

  State& state(std::int32_t message) { return states_[static_cast<std::size_t>(message)]; }
  const FlatMessage& flat_of(std::int32_t message) const {
    return parts_.flat.messages[static_cast<std::size_t>(message)];
  }
  void settle_transfer(std::int32_t message);
  void start_transfer(std::int32_t message);
  void enqueue_copy(std::int32_t message, const StreamView& stream);
  void settle_collective(std::int32_t message, Ns time);
  void await_start(std::int32_t message);
  void sleep_until(Ns time_ns);
  MessageTime transfer_time(std::int32_t message) const;
  SharedPayload brought_here(const SharedPayload& contribution, std::int32_t from, std::int32_t to) const;

  CudaLocalParts parts_;
  std::vector<DeviceTime> device_times_;  // by rank
  PinnedMoments moments_;                 // start and end, by message
  std::vector<State> states_;             // by message

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace penstock
