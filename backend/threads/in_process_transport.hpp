#pragma once
// Moves messages between workers that are threads of one process. It can emulate links.
// socket_transport.hpp moves messages between processes instead.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "backend/executor/clock.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// A transport between threads of one process, which passes pointers to payloads. A message occupies its
/// channel for pace.hold from its start on, and arrives pace.latency later. The receiver sleeps until the
/// arrival. `flat` contains the message queues, so every channel model, capacity and eager size is
/// possible.
class InProcessTransport : public Transport {
 public:
  /// Makes the transport of one run. `flat` must be built for `channels`. `flat` and `clock` must outlive
  /// this object.
  InProcessTransport(const FlatProgram& flat, const ChannelOptions& channels, LinkPace pace,
                     const Clock& clock);

  ChannelOptions channels() const override { return channels_; }
  void send(std::int32_t message, Payload payload) override;
  void expect(std::int32_t message) override;
  void release(std::int32_t position) override;
  void join(std::int32_t message, std::int32_t rank, SharedPayload contribution) override;
  void wait(std::int32_t message, std::int32_t rank) override;
  Payload take(std::int32_t message) override;
  std::vector<SharedPayload> collect(std::int32_t message, std::int32_t rank) override;
  void stop() override;
  MessageTime time_of(std::int32_t message) const override;

 private:
  struct Member {
    std::int32_t rank = 0;
    SharedPayload contribution;
  };
  struct State {
    std::int32_t pending = 0;  // number of events for which the message still waits, as in FlatMessage
    std::int32_t collected = 0;
    MessageTime time;
    Payload payload;
    std::vector<Member> members;  // members of a collective that have joined, in ascending order of ranks
  };

  // The caller of these functions must hold the lock, except in the constructor.
  State& state(std::int32_t message) { return states_[static_cast<std::size_t>(message)]; }
  void satisfy(std::int32_t message, Ns time);
  /// Starts a message that waits for no more events. Writes its start and end, and calls satisfy() for the
  /// next messages in its queues.
  void start(std::int32_t message);
  void start_next_collectives(std::int32_t message);
  void wake(std::int32_t rank) { changed_[static_cast<std::size_t>(rank)].notify_all(); }

  const FlatProgram& flat_;
  ChannelOptions channels_;
  LinkPace pace_;
  const Clock& clock_;

  mutable std::mutex mutex_;                      // guards all members below
  std::vector<std::condition_variable> changed_;  // one condition variable for each rank
  std::vector<State> states_;                     // state of each message
  // The messages that wait for no more events and that satisfy() has not started yet.
  std::vector<std::int32_t> startable_;
  bool stopped_ = false;
};

}  // namespace penstock
