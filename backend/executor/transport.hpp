#pragma once
// The interfaces below the executor. A Transport moves payloads between ranks. A ComputeQueue is hardware
// that runs the compute actions of a rank asynchronously, such as a CUDA stream.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

/// The base class for the content of the messages that stage modules send between stages.
class PayloadContent {
 public:
  PayloadContent() = default;
  PayloadContent(const PayloadContent&) = delete;
  PayloadContent& operator=(const PayloadContent&) = delete;
  virtual ~PayloadContent() = default;
};

/// The content of one message, which has a single owner. It is null if the message carries no data.
using Payload = std::unique_ptr<PayloadContent>;
/// The content that one rank contributes to a collective. All members of the collective read it.
using SharedPayload = std::shared_ptr<const PayloadContent>;

/// An interface that converts payloads to bytes and back, so that a transport can send them to another
/// process. Each family of stage modules has its own codec. The codec never gets a null payload, and only
/// the rank's worker thread calls it. A function that fails throws an exception.
class PayloadCodec {
 public:
  PayloadCodec() = default;
  PayloadCodec(const PayloadCodec&) = delete;
  PayloadCodec& operator=(const PayloadCodec&) = delete;
  virtual ~PayloadCodec() = default;

  virtual std::vector<std::uint8_t> encode(const PayloadContent& content) const = 0;
  virtual Payload decode(std::span<const std::uint8_t> bytes) const = 0;
};

// The interface between the executor and a transport, which moves messages between ranks. A message is named
// by its number in the FlatProgram.

/// The times when a message or collective started and when it ended.
struct MessageTime {
  Ns start_ns = 0;
  Ns end_ns = 0;
};

/// The exception that a waiting function throws after stop() was called, because another part of the run
/// has failed.
struct Stopped {};

/// An interface that moves the messages of one run. It follows the rules of
/// schedules/check/rendezvous_walk.hpp for the channel options that channels() returns. The threads of all
/// workers may call it.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  virtual ChannelOptions channels() const = 0;

  /// Records that the sender's side of a transfer is ready. The worker calls it when the action that
  /// produced the payload has ended, or at the SEND if channels are blocking. Never waits.
  virtual void send(std::int32_t message, Payload payload) = 0;
  /// Records that the receiving rank has reached the RECV of a message. This is necessary with blocking
  /// channels, for groups of transfers, and in transports in which the receiver requests each message. In
  /// all other cases, every RECV is ready from the start. Never waits.
  virtual void expect(std::int32_t message) = 0;
  /// begin_group() must be called before the calls of send() and expect() for one group of transfers of
  /// `rank`, and end_group() after them. The transport may start the group when end_group() is called.
  /// Between the two calls, the worker waits for nothing. Neither function waits.
  virtual void begin_group(std::int32_t rank) { static_cast<void>(rank); }
  virtual void end_group(std::int32_t rank) { static_cast<void>(rank); }
  /// Records that the compute action at `position` has ended. Transfers that waited for the buffers of its
  /// inputs may then start.
  virtual void release(std::int32_t position) = 0;
  /// Returns false if `rank` must not post the message now, because device queues are full. In that case the
  /// worker calls has_room() again later. Never waits.
  virtual bool has_room(std::int32_t message, std::int32_t rank) {
    static_cast<void>(message), static_cast<void>(rank);
    return true;
  }
  /// Records that `rank` has reached a collective or barrier. Never waits.
  virtual void join(std::int32_t message, std::int32_t rank, SharedPayload contribution) = 0;

  /// Waits until the message has arrived or the collective has ended. If the rank submits its actions to a
  /// compute queue, the function returns earlier: as soon as the queue will certainly wait for the message
  /// before the next action. Throws Stopped.
  virtual void wait(std::int32_t message, std::int32_t rank) = 0;
  /// Returns the content of a transfer. wait() must have returned for this transfer. May be called once for
  /// each transfer.
  virtual Payload take(std::int32_t message) = 0;
  /// Returns the result of a collective for `rank`. wait() must have returned for this collective. May be
  /// called once for each rank.
  virtual std::vector<SharedPayload> collect(std::int32_t message, std::int32_t rank) = 0;

  /// Throws if a failure has happened since the last call and no wait() has reported it.
  virtual void check() {}
  /// Waits until the messages that the rank started have ended. The worker calls it after the rank's last
  /// action. Throws Stopped.
  virtual void finish(std::int32_t rank) { static_cast<void>(rank); }
  /// Makes all waits in progress and all later waits throw Stopped. May be called more than once.
  virtual void stop() = 0;
  /// Returns the times of a message that has started. Requires that all workers and their queues have ended.
  virtual MessageTime time_of(std::int32_t message) const = 0;
};

// The interface between the executor and a device queue that runs a rank's compute actions asynchronously,
// such as a CUDA stream.

/// The largest number of launches that groups of compute actions have made, by the stages and kinds of the
/// group's actions.
using LaunchCounts = std::map<std::vector<std::pair<std::int32_t, ActionKind>>, std::int64_t>;

/// A queue that runs the compute actions of one rank one after the other, while the rank's thread continues.
/// Actions are numbered from 0 in the order of their submission. Only the rank's thread calls it, except for
/// time_of(). A function that fails throws an exception.
class ComputeQueue {
 public:
  ComputeQueue() = default;
  ComputeQueue(const ComputeQueue&) = delete;
  ComputeQueue& operator=(const ComputeQueue&) = delete;
  virtual ~ComputeQueue() = default;

  /// Returns the largest number of launches that all unfinished actions may have made together. A device
  /// queue takes only so many. The next launch blocks the thread, which then sees neither a stop nor a
  /// deadline.
  virtual std::int64_t most_launches() const = 0;
  /// Returns the number of launches that the calling thread has made so far on all queues.
  virtual std::int64_t launches() const = 0;
  /// Returns the numbers of launches that were counted in earlier runs of the rank. This run adds its own
  /// counts to them.
  virtual LaunchCounts& counts() = 0;
  /// begin() must be called before the device calls of action `number`, and end() after them. Neither
  /// function waits.
  virtual void begin(std::int32_t number) = 0;
  virtual void end(std::int32_t number) = 0;
  /// has_begun() and has_ended() return true if the action has begun, or has ended. If they return false for
  /// an action, they return false for all later actions, too. They never wait.
  virtual bool has_begun(std::int32_t number) const = 0;
  virtual bool has_ended(std::int32_t number) const = 0;
  /// Returns the start and end of the action on the run's clock. Requires that has_ended() has returned true
  /// for the action.
  virtual MessageTime time_of(std::int32_t number) const = 0;
};

// The times of emulated links. The caller of a run computes them from the cluster's routes. Every transport
// that can emulate links uses these times.

/// The times that the messages of a FlatProgram take on emulated links, by message number. An empty vector
/// means 0 for all messages.
struct LinkPace {
  /// The time for which the message occupies its channel. For a collective, it is the whole duration.
  std::vector<Ns> hold;
  std::vector<Ns> latency;  ///< time from the end of `hold` to the arrival, in which the channel is free
};

/// Returns the element of `times` for message number `message`, or 0 if `times` is empty.
inline Ns pace_at(const std::vector<Ns>& times, std::int32_t message) {
  return times.empty() ? 0 : times[index(message)];
}

}  // namespace penstock
