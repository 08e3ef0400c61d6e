#pragma once
// The ways that a program's messages take, and which registers of a tape say when their queues are free. Used
// by compile.cpp and turn_tape.cpp.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/rank_queues.hpp"
#include "sim/engines/numbering.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// The transfer and link classes of ways, by their numbers.
struct WayRegisters {
  std::vector<TransferClass> transfers;
  std::vector<LinkClass> links;
  Register queue_count = 0;  ///< how many registers the queues take
  bool both_ends = false;    ///< some link has c != e
};

/// Numbers ways in the order in which messages meet them. Messages of different groups go different ways.
class MessageWays {
 public:
  /// `ways`: about how many there will be.
  MessageWays(ChannelModel model, const MicrobatchGroups& groups, std::size_t ways);

  /// The way of a message. Constant time.
  std::uint32_t of(const TransferClass& message, bool eager) {
    const std::size_t place = 4 * groups_.place_of(message.send) +
                              2 * static_cast<std::size_t>(flow_of(message.send.kind)) +
                              static_cast<std::size_t>(eager);
    if (place < recent_.size() && recent_[place].is_of(message)) return recent_[place].way;
    return find(message, eager, place);
  }
  /// Something waits behind an eager message of the way in the receiver's queue.
  void queue_eager(std::uint32_t way) { ways_[way].is_of_queue = true; }
  std::size_t size() const { return ways_.size(); }

  /// Once all messages are known: queues are registers from `first` on; two that hold the same messages at
  /// their two ends are one.
  WayRegisters in_registers(Register first) &&;

 private:
  static constexpr std::uint32_t kNoQueue = 0xffff'ffff;
  static constexpr std::uint32_t kSeveral = kNoQueue - 1;

  struct Way {
    std::uint32_t sender = 0;  // queues
    std::uint32_t receiver = 0;
    bool eager = false;
    bool is_of_queue = false;  // some message of it is of the receiver's queue
  };
  struct Queue {
    std::uint32_t across = kNoQueue;  // where its messages come from or go to
    std::uint32_t stands_for = 0;     // itself, or the equal one at the other end
  };
  /// The way that a stage's messages of one kind took last: mostly the next takes it, too.
  struct Recent {
    std::int32_t from_rank = -1;
    std::int32_t to_rank = -1;
    std::int32_t peer = kNoPeer;
    std::uint32_t way = 0;

    bool is_of(const TransferClass& message) const {
      return from_rank == message.from_rank && to_rank == message.to_rank && peer == message.send.peer;
    }
  };

  std::uint32_t find(const TransferClass& message, bool eager, std::size_t place);
  void add_way(const TransferClass& message, bool eager);
  std::uint32_t queue_at(std::int32_t rank, const MessageEnd& end);
  void pair_queues();
  void note(std::uint32_t queue, std::uint32_t across);

  ChannelModel model_;
  MicrobatchGroups groups_;
  std::vector<TransferClass> transfers_;
  std::vector<Way> ways_;
  std::vector<Queue> queues_;
  std::vector<Recent> recent_;  // by sending stage, group of microbatches, flow and whether eager
  Numbering<4> numbers_;        // of ways: both ranks, place as in recent_, peer
  Numbering<2> queue_numbers_;  // rank, and number among the rank's
  Numbering<2> edges_;
};

}  // namespace penstock
