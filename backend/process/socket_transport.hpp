#pragma once
// One rank's end of the transport between processes: one queue per ordered pair of ranks, never blocking,
// without bounds. It can emulate links.

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

/// What the transports of all ranks of one run have in common with each other, and what sets one apart. All
/// references must outlive the transport.
struct SocketTransportParts {
  const FlatProgram& flat;  ///< laid out for directed channels without capacity and eager messages
  const LinkPace& pace;
  const Clock& clock;         ///< that all ranks share
  const PayloadCodec* codec;  ///< null where all payloads are null
  std::int32_t rank = 0;
  std::int32_t run = 0;  ///< frames of other runs are ignored
  /// Never waits; frames for one peer arrive in order.
  std::function<void(std::int32_t peer, Frame)> send;
};

/// A transfer leaves when it heads its queue: the sender reckons when it starts and arrives, and the receiver
/// sleeps until then. Of a collective each member tells all others when it joined, so that all come to the
/// same times.
class SocketTransport : public Transport {
 public:
  explicit SocketTransport(SocketTransportParts parts);

  ChannelOptions channels() const override { return {}; }
  void send(std::int32_t message, Payload payload) override;
  void expect(std::int32_t) override {}   // channels do not block
  void release(std::int32_t) override {}  // nor are they bounded
  void join(std::int32_t message, std::int32_t rank, SharedPayload contribution) override;
  void wait(std::int32_t message, std::int32_t rank) override;
  Payload take(std::int32_t message) override;
  std::vector<SharedPayload> collect(std::int32_t message, std::int32_t rank) override;
  void stop() override;
  MessageTime time_of(std::int32_t message) const override;

  /// A frame that a peer's transport sent. What is not that peer's to send is left out.
  void receive(std::int32_t peer, const Frame& frame);
  /// Of the messages that this rank accounts for, when all have started. Throws Stopped.
  std::vector<MessageTime> own_times();

 private:
  struct Member {
    SharedPayload own;  // of this rank
    Frame bytes;        // of another
    bool has_payload = false;
  };
  struct State {
    std::int32_t pending = 0;  // what must happen here before it leaves, or before this rank has joined
    bool started = false;
    MessageTime time;
    Frame bytes;
    bool has_payload = false;
    // Of a collective:
    SharedPayload own;
    Ns joined_ns = 0;                        // by this rank
    std::map<std::int32_t, Member> members;  // those that have joined, by rank
    std::int32_t missing = 0;                // those that have not
  };

  State& state(std::int32_t message) { return states_[place_[static_cast<std::size_t>(message)]]; }
  const FlatMessage& flat_of(std::int32_t message) const {
    return parts_.flat.messages[static_cast<std::size_t>(message)];
  }
  void make_states();
  void count_pending();
  Frame bytes_of(const PayloadContent& content) const;
  Payload payload_of(const Frame& bytes) const;
  /// Sends a transfer that heads its queue and whose times are known.
  void depart(std::int32_t message);
  void settle_join(std::int32_t message, Ns time);
  /// To all other members: this rank has joined, at this time, with this contribution.
  void tell_members(std::int32_t message);
  /// `rank`, this one or another, joined at `time`. With the last member the collective starts.
  void member_joined(std::int32_t message, std::int32_t rank, Ns time, Member member);
  /// Here: each member does the same by itself, from the same times.
  void start_collective(std::int32_t message);

  SocketTransportParts parts_;
  std::vector<std::int32_t> own_;     // messages that this rank accounts for
  std::vector<std::uint32_t> place_;  // by message: of its state; 0 where this rank has no part in it

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<State> states_;  // the first is of what others exchange
  bool stopped_ = false;
};

/// The messages that a rank accounts for: the transfers that it sends and the collectives that it is the
/// first member of, by number.
std::vector<std::int32_t> messages_of(const FlatProgram& flat, std::int32_t rank);

/// All ranks that a rank exchanges anything with, ascending.
std::vector<std::int32_t> peers_of(const FlatProgram& flat, std::int32_t rank);
/// The same of each rank.
std::vector<std::vector<std::int32_t>> peers_of_ranks(const FlatProgram& flat);

}  // namespace penstock
