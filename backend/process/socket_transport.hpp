#pragma once
// One rank's end of the transport between processes. It has one queue for each ordered pair of ranks. Queues
// never block and are not bounded. It can emulate links.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "backend/executor/clock.hpp"
#include "backend/executor/link_pace.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// The settings of one rank's transport in one run. All references must outlive the transport.
struct SocketTransportParts {
  const FlatProgram& flat;  ///< must be built for directed channels without capacity and eager messages
  const LinkPace& pace;
  const Clock& clock;         ///< all ranks share this clock
  const PayloadCodec* codec;  ///< null if all payloads are null
  std::int32_t rank = 0;
  std::int32_t run = 0;  ///< frames of other runs are ignored
  /// Sends a frame. Never waits; frames for one peer arrive in order.
  std::function<void(std::int32_t peer, Frame)> send;
};

/// A transport over sockets. A transfer leaves when it is the first of its queue. The sender computes when it
/// starts and arrives, and the receiver sleeps until then. For a collective each member tells all others when
/// it joined, so all compute the same times.
class SocketTransport : public Transport {
 public:
  explicit SocketTransport(SocketTransportParts parts);

  ChannelOptions channels() const override { return {}; }
  void send(std::int32_t message, Payload payload) override;
  void expect(std::int32_t) override {}   // channels do not block
  void release(std::int32_t) override {}  // channels are not bounded
  void join(std::int32_t message, std::int32_t rank, SharedPayload contribution) override;
  void wait(std::int32_t message, std::int32_t rank) override;
  Payload take(std::int32_t message) override;
  std::vector<SharedPayload> collect(std::int32_t message, std::int32_t rank) override;
  void stop() override;
  MessageTime time_of(std::int32_t message) const override;

  /// Handles a frame that a peer's transport sent. A frame that this peer must not send is ignored.
  void receive(std::int32_t peer, const Frame& frame);
  /// Returns the times of the messages for which this rank accounts, when all have started. Throws Stopped.
  std::vector<MessageTime> own_times();

 private:
  struct Member {
    SharedPayload own;  // contribution of this rank
    Frame bytes;        // contribution of another rank
    bool has_payload = false;
  };
  struct State {
    // Number of events on this rank before a transfer leaves, or before this rank has joined a collective.
    std::int32_t pending = 0;
    bool started = false;
    MessageTime time;
    Frame bytes;
    bool has_payload = false;
    // The members below are of a collective.
    SharedPayload own;
    Ns joined_ns = 0;                        // when this rank joined
    std::map<std::int32_t, Member> members;  // members that have joined, by rank
    std::int32_t missing = 0;                // number of members that have not joined
  };

  State& state(std::int32_t message) { return states_[place_[static_cast<std::size_t>(message)]]; }
  const FlatMessage& flat_of(std::int32_t message) const {
    return parts_.flat.messages[static_cast<std::size_t>(message)];
  }
  void make_states();
  void count_pending();
  Frame bytes_of(const PayloadContent& content) const;
  Payload payload_of(const Frame& bytes) const;
  /// Sends a transfer that is the first of its queue and whose times are known.
  void depart(std::int32_t message);
  void satisfy_join(std::int32_t message, Ns time);
  /// Tells all other members that this rank has joined, at this time and with this contribution.
  void tell_members(std::int32_t message);
  /// Records that `rank`, this one or another, joined at `time`. With the last member the collective starts.
  void member_joined(std::int32_t message, std::int32_t rank, Ns time, Member member);
  /// Starts the collective on this rank. Each member does the same with the same times.
  void start_collective(std::int32_t message);

  SocketTransportParts parts_;
  std::vector<std::int32_t> own_;     // messages for which this rank accounts
  std::vector<std::uint32_t> place_;  // by message: index of its state; 0 if this rank takes no part in it

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<State> states_;  // the first one stands for messages of other ranks
  bool stopped_ = false;
};

/// Returns the numbers of the messages for which a rank accounts: transfers that it sends, and collectives of
/// which it is the first member.
std::vector<std::int32_t> messages_of(const FlatProgram& flat, std::int32_t rank);

/// Returns all ranks with which a rank exchanges messages, ascending.
std::vector<std::int32_t> peers_of(const FlatProgram& flat, std::int32_t rank);
/// Returns peers_of() for each rank.
std::vector<std::vector<std::int32_t>> peers_of_ranks(const FlatProgram& flat);

}  // namespace penstock
