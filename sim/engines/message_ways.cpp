// Messages of one stage edge and direction between the same two ranks go one way (of microbatches that cost
// the same, where these differ): they pass the same queue at either end. So queues are looked at way by way.
//
//   rank 0 sends on A   ways A -> B              whatever leaves A leaves B at that moment: one register
//   rank 2 sends on C   ways C -> D, C -> E      what goes to D is in C with what goes to E: three registers
//
// An eager message stands beside the receiver's queue. It counts as of it where something behind it waits;
// others may go elsewhere from the same sender, since whatever is in the receiver's queue waits for them at
// the sender.

#include "sim/engines/message_ways.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/rank_queues.hpp"
#include "sim/engines/numbering.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {
namespace {

class Ways {
 public:
  Ways(const FlatProgram& flat, ChannelModel model, const MicrobatchGroups& groups)
      : flat_(flat), model_(model), groups_(groups) {
    found_.of_message.resize(flat.messages.size(), 0);
    for (std::size_t id = 0; id < flat.messages.size(); ++id) {
      const FlatMessage& message = flat.messages[id];
      if (message.recv == kNone) continue;
      const std::uint32_t way = way_of(message);
      found_.of_message[id] = way;
      ways_[way].is_of_queue |= !message.eager || message.next_at_receiver != kNone;
    }
    pair_queues();
  }

  MessageWays in_registers(Register first) && {
    std::vector<Register> number(queues_.size(), kNoRegister);
    Register next = first;
    const auto numbered = [&](std::uint32_t queue) {
      Register& known = number[queues_[queue].stands_for];
      if (known == kNoRegister) known = next++;
      return known;
    };
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      const Register sender = numbered(ways_[way].sender);
      const Register receiver = ways_[way].eager ? sender : numbered(ways_[way].receiver);
      found_.links.push_back({.c = sender, .e = receiver, .transfer = static_cast<std::int32_t>(way)});
      found_.both_ends |= sender != receiver;
    }
    found_.queue_count = next - first;
    return std::move(found_);
  }

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
    std::int32_t from_rank = kNone;
    std::int32_t to_rank = kNone;
    std::int32_t peer = kNoPeer;
    std::uint32_t way = 0;
  };

  std::uint32_t way_of(const FlatMessage& message) {
    const Action& send = flat_.actions[index(message.first)];
    const std::size_t place = (4 * groups_.place_of(send)) +
                              (2 * static_cast<std::size_t>(flow_of(send.kind))) +
                              static_cast<std::size_t>(message.eager);
    if (place >= recent_.size()) recent_.resize(place + 1);
    Recent& recent = recent_[place];
    const bool same = recent.from_rank == message.from_rank && recent.to_rank == message.to_rank &&
                      recent.peer == send.peer;
    if (same) return recent.way;
    const auto [way, is_new] = numbers_.of(
        {static_cast<std::uint32_t>(message.from_rank), static_cast<std::uint32_t>(message.to_rank),
         static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(send.peer)});
    if (is_new) add_way(message, send);
    recent = {message.from_rank, message.to_rank, send.peer, way};
    return way;
  }

  void add_way(const FlatMessage& message, const Action& send) {
    found_.transfers.push_back({.from_rank = message.from_rank, .to_rank = message.to_rank, .send = send});
    const StageEdge stages = edge_of(message_of(send));
    const std::uint32_t edge =
        edges_.of({static_cast<std::uint32_t>(stages.from), static_cast<std::uint32_t>(stages.to)}).number;
    const Flow flow = flow_of(send.kind);
    ways_.push_back({.sender = queue_at(message.from_rank, {message.to_rank, true, flow, edge}),
                     .receiver = queue_at(message.to_rank, {message.from_rank, false, flow, edge}),
                     .eager = message.eager});
  }

  std::uint32_t queue_at(std::int32_t rank, const MessageEnd& end) {
    const auto [queue, is_new] = queue_numbers_.of(
        {static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(queue_of(model_, end))});
    if (is_new) queues_.push_back({.stands_for = queue});
    return queue;
  }

  /// Two queues that hold the same messages, one stands for both.
  void pair_queues() {
    for (const Way& way : ways_) {
      if (!way.is_of_queue) continue;
      note(way.sender, way.receiver);
      note(way.receiver, way.sender);
    }
    for (std::uint32_t queue = 0; queue < queues_.size(); ++queue) {
      const std::uint32_t across = queues_[queue].across;
      const bool equal = across < kSeveral && queues_[across].across == queue;
      if (equal) queues_[queue].stands_for = std::min(queue, across);
    }
  }

  void note(std::uint32_t queue, std::uint32_t across) {
    std::uint32_t& known = queues_[queue].across;
    known = known == kNoQueue || known == across ? across : kSeveral;
  }

  const FlatProgram& flat_;
  ChannelModel model_;
  MicrobatchGroups groups_;
  std::vector<Way> ways_;
  std::vector<Queue> queues_;
  std::vector<Recent> recent_;  // by sending stage, group of microbatches, flow and whether eager
  Numbering<4> numbers_;        // of ways: both ranks, place as in recent_, peer
  Numbering<2> queue_numbers_;  // rank, and number among the rank's
  Numbering<2> edges_;
  MessageWays found_;
};

}  // namespace

MessageWays message_ways(const FlatProgram& flat, ChannelModel model, const MicrobatchGroups& groups,
                         Register first) {
  return Ways(flat, model, groups).in_registers(first);
}

}  // namespace penstock
