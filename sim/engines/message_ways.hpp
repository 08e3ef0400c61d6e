#pragma once
// The routes of a program's messages, and the registers of a tape that hold the times at which their queues
// become free. Used by compile.cpp and turn_tape.cpp.

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

/// The transfer and link classes of all routes, by route number.
struct WayRegisters {
  std::vector<TransferClass> transfers;
  std::vector<LinkClass> links;
  Register queue_count = 0;  ///< number of registers that the queues take
  bool both_ends = false;    ///< true if c and e differ for some link
};

/// Numbers routes in the order of their first messages. Messages of different groups have different routes.
class MessageWays {
 public:
  /// Creates an empty object. `ways` is the expected number of routes.
  MessageWays(ChannelModel model, const MicrobatchGroups& groups, std::size_t ways);

  /// Returns the number of the message's route in constant time.
  std::uint32_t of(const TransferClass& message, bool eager) {
    const std::size_t place = 4 * groups_.place_of(message.send) +
                              2 * static_cast<std::size_t>(flow_of(message.send.kind)) +
                              static_cast<std::size_t>(eager);
    if (place < recent_.size() && recent_[place].is_of(message)) return recent_[place].way;
    return find(message, eager, place);
  }
  /// Records that a message waits in the receiver's queue behind an eager message of the route.
  void queue_eager(std::uint32_t way) { ways_[way].is_of_queue = true; }
  std::size_t size() const { return ways_.size(); }

  /// Assigns registers from `first` on to the queues, after all messages are known. Two queues with the same
  /// messages at their two ends get one register.
  WayRegisters in_registers(Register first) &&;

 private:
  static constexpr std::uint32_t kNoQueue = 0xffff'ffff;
  static constexpr std::uint32_t kSeveral = kNoQueue - 1;

  struct Way {
    std::uint32_t sender = 0;  // numbers of the two queues
    std::uint32_t receiver = 0;
    bool eager = false;
    bool is_of_queue = false;  // true if some message counts for the receiver's queue
  };
  struct Queue {
    std::uint32_t across = kNoQueue;  // queue at the other end of its messages, or kSeveral
    std::uint32_t stands_for = 0;     // this queue, or the equal queue at the other end
  };
  /// The last route that a stage's messages of one kind took. The next message usually takes it again.
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
  std::vector<Recent> recent_;  // index: sending stage, group of microbatches, flow, eager or not
  Numbering<4> numbers_;        // numbers of routes; key: sender, receiver, index in recent_, peer
  Numbering<2> queue_numbers_;  // numbers of queues; key: rank, and number at the rank
  Numbering<2> edges_;
};

}  // namespace penstock
