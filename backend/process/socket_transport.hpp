#pragma once
// Moves the messages of one rank to and from other processes, and defines the frames (messages as bytes)
// that it sends while a program runs. It has one queue for each ordered pair of ranks. Queues never block
// and are not bounded. It can emulate links.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "backend/executor/clock.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

struct DataHeader {
  std::int32_t run = 0;
  std::int32_t message = 0;  ///< number of the message in the flat program
  std::int32_t from_rank = 0;
  std::int32_t has_payload = 0;  ///< 1 if the frame has a payload, 0 if the payload is null
  /// The start of a transfer, or the time at which this rank joined a collective. In a frame of a receiver,
  /// it is the time at which the receiver posted the group of transfers with the RECV.
  Ns start_ns = 0;
  Ns end_ns = 0;  ///< time when a transfer arrives; not used for other frames
};

/// Returns the bytes of a frame with this header and payload. header.has_payload must be 1 if `payload` is
/// not empty.
Frame packed(const DataHeader& header, std::span<const std::uint8_t> payload);

/// The header and the payload of a frame. `payload` refers to the bytes of the frame.
struct DataView {
  DataHeader header;
  std::span<const std::uint8_t> payload;
};
/// Returns the parts of a frame, or nothing if the frame is shorter than a header.
std::optional<DataView> unpacked(const Frame& frame);

/// The settings of one rank's transport in one run. All references must outlive the transport.
struct SocketTransportParts {
  /// The flattened program. It must be built for directed channels, without a capacity limit and without
  /// eager messages.
  const FlatProgram& flat;
  const LinkPace& pace;
  const Clock& clock;         ///< clock that all ranks share
  const PayloadCodec* codec;  ///< codec of the payloads; null if all payloads are null
  std::int32_t rank = 0;
  std::int32_t run = 0;  ///< number of this run; frames of other runs are ignored
  /// Sends a frame to `peer`. Never waits. Frames for one peer arrive in order.
  std::function<void(std::int32_t peer, Frame)> send;
};

/// A transport over sockets. A transfer is sent when it is the first in its queue. If its RECV is in a group
/// of transfers, the receiver first tells the sender when it has posted the group. The sender computes the
/// start and the arrival of the transfer, and the receiver sleeps until the arrival. For a collective, each
/// member tells all others when it joined, so that all members compute the same times.
class SocketTransport : public Transport {
 public:
  explicit SocketTransport(SocketTransportParts parts);

  ChannelOptions channels() const override { return {}; }
  void send(std::int32_t message, Payload payload) override;
  void expect(std::int32_t message) override;
  // No transfer waits for buffers, because channels have no size limit.
  void release(std::int32_t) override {}
  void join(std::int32_t message, std::int32_t rank, SharedPayload contribution) override;
  void wait(std::int32_t message, std::int32_t rank) override;
  Payload take(std::int32_t message) override;
  std::vector<SharedPayload> collect(std::int32_t message, std::int32_t rank) override;
  void stop() override;
  MessageTime time_of(std::int32_t message) const override;

  /// Handles a frame that the transport of `peer` sent. Ignores a frame that this peer may not send.
  void receive(std::int32_t peer, const Frame& frame);
  /// Waits until all messages that this rank reports have started. Returns the times of these messages.
  /// Throws Stopped.
  std::vector<MessageTime> own_times();

 private:
  struct Member {
    SharedPayload own;  // contribution if the member is this rank
    Frame bytes;        // encoded contribution if the member is another rank
    bool has_payload = false;
  };
  struct State {
    // The number of events on this rank that must still happen before a transfer is sent, or before this rank
    // has joined a collective.
    std::int32_t pending = 0;
    bool started = false;
    bool posted = false;  // true if the receiver has posted the group with the RECV
    MessageTime time;
    Frame bytes;
    bool has_payload = false;
    // The fields below are used only for collectives.
    SharedPayload own;
    Ns joined_ns = 0;                        // time at which this rank joined
    std::map<std::int32_t, Member> members;  // ranks that have joined
    std::int32_t missing = 0;                // number of ranks that have not joined
  };

  State& state(std::int32_t message) { return states_[place_[static_cast<std::size_t>(message)]]; }
  const FlatMessage& flat_of(std::int32_t message) const {
    return parts_.flat.messages[static_cast<std::size_t>(message)];
  }
  void make_states();
  void count_pending();
  Frame bytes_of(const PayloadContent& content) const;
  Payload payload_of(const Frame& bytes) const;
  /// Records that one of the events for which a transfer of this rank waits happened at `time`. After the
  /// last of these events, sends the transfer. Also sends the transfers behind it in its queue that are then
  /// ready.
  void satisfy_transfer(std::int32_t message, Ns time);
  /// Sends a transfer. Requires that it is the first in its queue and that its times are known.
  void depart(std::int32_t message);
  void satisfy_join(std::int32_t message, Ns time);
  /// Tells all other members of a collective that this rank has joined. The message contains the time and
  /// this rank's contribution.
  void tell_members(std::int32_t message);
  /// Records that `rank`, which may be this rank, joined the collective at `time`. Starts the collective if
  /// it was the last member.
  void member_joined(std::int32_t message, std::int32_t rank, Ns time, Member member);
  /// Starts the collective on this rank. Every member computes the same start and end.
  void start_collective(std::int32_t message);

  SocketTransportParts parts_;
  std::vector<std::int32_t> own_;  // numbers of the messages that this rank reports (messages_of)
  // The index of each message's state in `states_`, or 0 if this rank takes no part in the message.
  std::vector<std::uint32_t> place_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  // The states of this rank's messages. Element 0 is a placeholder for all other messages.
  std::vector<State> states_;
  bool stopped_ = false;
};

/// Returns the numbers of the messages that a rank reports. These are the transfers that it sends, and the
/// collectives of which it is the first member.
std::vector<std::int32_t> messages_of(const FlatProgram& flat, std::int32_t rank);

/// Returns all ranks with which a rank exchanges messages, in ascending order.
std::vector<std::int32_t> peers_of(const FlatProgram& flat, std::int32_t rank);
/// Returns peers_of() for each rank of the program.
std::vector<std::vector<std::int32_t>> peers_of_ranks(const FlatProgram& flat);

}  // namespace penstock
