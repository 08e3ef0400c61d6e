// Messages of one stage edge and direction between the same two ranks have one route, because they pass the
// same queue at each end. If microbatches differ, each group has its own route. So queues are compared route
// by route:
//
//   rank 0 sends on A   route A -> B            a message leaves A and B at the same moment: one register
//   rank 2 sends on C   routes C -> D, C -> E   C holds the messages of D and of E: three registers
//
// An eager message is not in the receiver's queue. It counts as a message of that queue only if a later
// message waits behind it there. Other eager messages of one sender may go to other ranks, because messages
// in the receiver's queue wait for them at the sender. If a receiver's queue also sends, it never shares the
// sender's register, because an eager message does not wait for what leaves there.

#include "sim/engines/message_ways.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/rank_queues.hpp"
#include "sim/engines/numbering.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

MessageWays::MessageWays(ChannelModel model, const MicrobatchGroups& groups, std::size_t ways)
    : model_(model), groups_(groups) {
  transfers_.reserve(ways);
  ways_.reserve(ways);
  queues_.reserve(2 * ways);
  recent_.reserve(4 * ways);
}

std::uint32_t MessageWays::find(const TransferClass& message, bool eager, std::size_t place) {
  if (place >= recent_.size()) recent_.resize(place + 1);
  const auto [way, is_new] =
      numbers_.of({static_cast<std::uint32_t>(message.from_rank), static_cast<std::uint32_t>(message.to_rank),
                   static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(message.send.peer)});
  if (is_new) add_way(message, eager);
  recent_[place] = {message.from_rank, message.to_rank, message.send.peer, way};
  return way;
}

void MessageWays::add_way(const TransferClass& message, bool eager) {
  transfers_.push_back(message);
  const StageEdge stages = edge_of(message_of(message.send));
  const std::uint32_t edge =
      edges_.of({static_cast<std::uint32_t>(stages.from), static_cast<std::uint32_t>(stages.to)}).number;
  const Flow flow = flow_of(message.send.kind);
  ways_.push_back({.sender = queue_at(message.from_rank, {message.to_rank, true, flow, edge}),
                   .receiver = queue_at(message.to_rank, {message.from_rank, false, flow, edge}),
                   .eager = eager,
                   .is_of_queue = !eager});
}

std::uint32_t MessageWays::queue_at(std::int32_t rank, const MessageEnd& end) {
  const auto [queue, is_new] = queue_numbers_.of(
      {static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(queue_of(model_, end))});
  if (is_new) queues_.push_back({.stands_for = queue});
  return queue;
}

/// Finds pairs of queues that hold the same messages. One queue represents both.
void MessageWays::pair_queues() {
  // Find the queue at the other end of each queue's messages, or kSeveral.
  for (const Way& way : ways_) {
    if (!way.is_of_queue) continue;
    note(way.sender, way.receiver);
    note(way.receiver, way.sender);
  }
  // The last rule at the top of this file: the receiving queue of an eager message is not paired if it also
  // sends.
  std::vector<bool> sends(queues_.size(), false);
  for (const Way& way : ways_) sends[way.sender] = true;
  for (const Way& way : ways_) {
    if (way.eager && sends[way.receiver]) queues_[way.receiver].across = kSeveral;
  }
  // Two queues hold the same messages if each has only the other at the other end.
  for (std::uint32_t queue = 0; queue < queues_.size(); ++queue) {
    const std::uint32_t across = queues_[queue].across;
    const bool equal = across < kSeveral && queues_[across].across == queue;
    if (equal) queues_[queue].stands_for = std::min(queue, across);
  }
}

/// Records that a message of `queue` has the queue `across` at its other end.
void MessageWays::note(std::uint32_t queue, std::uint32_t across) {
  std::uint32_t& known = queues_[queue].across;
  known = known == kNoQueue || known == across ? across : kSeveral;
}

WayRegisters MessageWays::in_registers(Register first) && {
  pair_queues();
  WayRegisters found{.transfers = std::move(transfers_), .links = {}};
  found.links.reserve(ways_.size());
  std::vector<Register> number(queues_.size(), kNoRegister);
  Register next = first;
  const auto numbered = [&](std::uint32_t queue) {
    Register& known = number[queues_[queue].stands_for];
    if (known == kNoRegister) known = next++;
    return known;
  };
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    const Register sender = numbered(ways_[way].sender);
    // Nothing at the receiver delays an eager message. compile.cpp handles messages that wait behind it.
    const Register receiver = ways_[way].eager ? sender : numbered(ways_[way].receiver);
    found.links.push_back({.c = sender, .e = receiver, .transfer = static_cast<std::int32_t>(way)});
    found.both_ends |= sender != receiver;
  }
  found.queue_count = next - first;
  return found;
}

}  // namespace penstock
