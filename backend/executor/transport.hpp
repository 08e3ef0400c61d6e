#pragma once
// The interface between the executor and a transport, which moves messages. Messages are those of a
// FlatProgram, by number.

#include <cstdint>
#include <vector>

#include "backend/executor/payload.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// The time when a message or collective started, and when it had arrived.
struct MessageTime {
  Ns start_ns = 0;
  Ns end_ns = 0;
};

/// The exception that a wait throws after stop(): the run has failed elsewhere.
struct Stopped {};

/// Moves the messages of one run by the rules of schedules/check/rendezvous_walk.hpp, under the channel
/// options that it declares. Any worker's thread may call it.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  virtual ChannelOptions channels() const = 0;

  /// Says that the sender's end of a transfer is ready: its producer has ended or, with blocking channels,
  /// program order has reached the SEND. Never waits.
  virtual void send(std::int32_t message, Payload payload) = 0;
  /// Says that program order has reached the RECV. This matters for blocking channels, and for transports
  /// whose receiver has to ask. For all others every RECV is ready from the start. Never waits.
  virtual void expect(std::int32_t message) = 0;
  /// Says that the compute action at `position` has ended. Transfers that waited for its buffers may start.
  virtual void release(std::int32_t position) = 0;
  /// Says that `rank` has reached a collective or barrier. Never waits.
  virtual void join(std::int32_t message, std::int32_t rank, SharedPayload contribution) = 0;

  /// Waits until the message has arrived or the collective has ended. If the rank runs ahead of a compute
  /// queue (compute_queue.hpp), it returns as soon as the actions that are submitted next will wait for it on
  /// the queue. Throws Stopped.
  virtual void wait(std::int32_t message, std::int32_t rank) = 0;
  /// Returns the content of a transfer for which wait() has returned. May be called once for each transfer.
  virtual Payload take(std::int32_t message) = 0;
  /// Returns the result for `rank` of a collective for which wait() has returned. May be called once for each
  /// rank.
  virtual std::vector<SharedPayload> collect(std::int32_t message, std::int32_t rank) = 0;

  /// Throws a failure that has happened since the last call and that no wait() reports.
  virtual void check() {}
  /// Called when the rank's list and its queue have ended. Returns when the messages that the rank started
  /// have ended as well. Throws Stopped.
  virtual void finish(std::int32_t rank) { static_cast<void>(rank); }
  /// Ends every present and later wait with Stopped. May be called more than once.
  virtual void stop() = 0;
  /// Returns the times of a message that has started. Requires that all workers and their queues have ended.
  virtual MessageTime time_of(std::int32_t message) const = 0;
};

}  // namespace penstock
