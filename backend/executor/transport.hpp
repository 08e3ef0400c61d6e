#pragma once
// The interface between the executor and a transport, which moves messages between ranks. A message is named
// by its number in the FlatProgram.

#include <cstdint>
#include <vector>

#include "backend/executor/payload.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// The times when a message or collective started and when it ended.
struct MessageTime {
  Ns start_ns = 0;
  Ns end_ns = 0;
};

/// The exception that a waiting function throws after stop(), because the run has failed in another place.
struct Stopped {};

/// Moves the messages of one run. It follows the rules of schedules/check/rendezvous_walk.hpp for the channel
/// options that channels() returns. Any worker's thread may call it.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  virtual ChannelOptions channels() const = 0;

  /// Marks the sender's side of a transfer as ready. The worker calls it when the action that produced the
  /// payload has ended. With blocking channels, the worker calls it at the SEND. Never waits.
  virtual void send(std::int32_t message, Payload payload) = 0;
  /// Marks the RECV of a message as reached by its rank. Blocking channels need this, and so do transports in
  /// which the receiver requests each message. For all others, every RECV is ready from the start. Never
  /// waits.
  virtual void expect(std::int32_t message) = 0;
  /// Marks the compute action at `position` as ended. Transfers that waited for the buffers of its inputs may
  /// start.
  virtual void release(std::int32_t position) = 0;
  /// Marks a collective or barrier as reached by `rank`. Never waits.
  virtual void join(std::int32_t message, std::int32_t rank, SharedPayload contribution) = 0;

  /// Waits until the message has arrived or the collective has ended. If the rank submits actions to a
  /// compute queue (compute_queue.hpp), returns earlier: as soon as the queue itself will wait for the
  /// message before the next action. Throws Stopped.
  virtual void wait(std::int32_t message, std::int32_t rank) = 0;
  /// Returns the content of a transfer for which wait() has returned. May be called once for each transfer.
  virtual Payload take(std::int32_t message) = 0;
  /// Returns the result for `rank` of a collective for which wait() has returned. May be called once for each
  /// rank.
  virtual std::vector<SharedPayload> collect(std::int32_t message, std::int32_t rank) = 0;

  /// Throws if a failure has happened since the last call that no wait() has reported.
  virtual void check() {}
  /// Waits until the messages that the rank started have ended. The worker calls it after the rank's last
  /// action. Throws Stopped.
  virtual void finish(std::int32_t rank) { static_cast<void>(rank); }
  /// Makes all present and later waits throw Stopped. May be called more than once.
  virtual void stop() = 0;
  /// Returns the times of a message that has started. Requires that all workers and their queues have ended.
  virtual MessageTime time_of(std::int32_t message) const = 0;
};

}  // namespace penstock
