#pragma once
// The transport between workers that are threads of one process. It can emulate links.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "backend/executor/clock.hpp"
#include "backend/executor/link_pace.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// Passes payloads on as pointers. A message holds its channel for pace.hold from the moment when it can
/// start, and arrives pace.latency later. The receiver sleeps until then. The queues are those with which
/// `flat` was built, so every channel model, capacity and eager size is possible.
class InProcessTransport : public Transport {
 public:
  /// `flat` must be built for `channels`. `flat` and `clock` must outlive this object.
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
    std::int32_t pending = 0;  // number of events that the message still waits for, as in FlatMessage
    std::int32_t collected = 0;
    MessageTime time;
    Payload payload;
    std::vector<Member> members;  // of a collective, by ascending rank
  };

  // The caller of these must hold the lock once other threads know the transport.
  State& state(std::int32_t message) { return states_[static_cast<std::size_t>(message)]; }
  void satisfy(std::int32_t message, Ns time);
  /// Starts a message that waits for nothing more: writes its times, and calls satisfy() for the next
  /// messages in its queues.
  void start(std::int32_t message);
  void start_next_collectives(std::int32_t message);
  void wake(std::int32_t rank) { changed_[static_cast<std::size_t>(rank)].notify_all(); }

  const FlatProgram& flat_;
  ChannelOptions channels_;
  LinkPace pace_;
  const Clock& clock_;

  mutable std::mutex mutex_;                      // guards all members below
  std::vector<std::condition_variable> changed_;  // by rank
  std::vector<State> states_;                     // by message
  std::vector<std::int32_t> startable_;           // messages that satisfy() can start and has not started yet
  bool stopped_ = false;
};

}  // namespace penstock
