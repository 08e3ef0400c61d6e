#pragma once
// The seam between the executor and whatever moves messages. Messages are those of a FlatProgram, by number.

#include <cstdint>
#include <vector>

#include "backend/executor/payload.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// When a message or collective started, and when it had arrived.
struct MessageTime {
  Ns start_ns = 0;
  Ns end_ns = 0;
};

/// Thrown from a wait after stop(): the run has failed elsewhere.
struct Stopped {};

/// Moves the messages of one run by the rules of schedules/check/rendezvous_walk.hpp, under the channel
/// options that it declares. Calls may come from any worker's thread.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  virtual ChannelOptions channels() const = 0;

  /// The sender's end of a transfer is ready: its producer has ended, or, with blocking channels, program
  /// order has reached the SEND. Never waits.
  virtual void send(std::int32_t message, Payload payload) = 0;
  /// Program order has reached the RECV. It matters to blocking channels, and to transports whose receiver
  /// has to ask; to the others every RECV stands ready from the start. Never waits.
  virtual void expect(std::int32_t message) = 0;
  /// The compute action at `position` has ended: transfers that waited for its room may start.
  virtual void release(std::int32_t position) = 0;
  /// `rank` has reached a collective or barrier. Never waits.
  virtual void join(std::int32_t message, std::int32_t rank, SharedPayload contribution) = 0;

  /// Returns when the message has arrived or the collective has ended, as the rank's compute queue (the one
  /// that it has) sees it: where its thread computes, when that has happened; where it runs ahead of a queue
  /// (compute_queue.hpp), when what the queue is given next will wait for it. Throws Stopped.
  virtual void wait(std::int32_t message, std::int32_t rank) = 0;
  /// The content of a transfer that wait() has returned for; once.
  virtual Payload take(std::int32_t message) = 0;
  /// What a collective that wait() has returned for brought `rank`; once a rank.
  virtual std::vector<SharedPayload> collect(std::int32_t message, std::int32_t rank) = 0;

  /// Throws what has failed since the last call, of what no wait() is at.
  virtual void check() {}
  /// The rank's list and its queue have ended: returns when the messages that it started have, too. Throws
  /// Stopped.
  virtual void finish(std::int32_t rank) { static_cast<void>(rank); }
  /// Ends every wait, now and later, with Stopped. May be called more than once.
  virtual void stop() = 0;
  /// Of a message that has started. Requires that all workers and their queues have ended.
  virtual MessageTime time_of(std::int32_t message) const = 0;
};

}  // namespace penstock
