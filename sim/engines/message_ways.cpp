// Messages of one stage edge and direction between the same two ranks go one way (of microbatches that cost
// the same, where these differ): they pass the same queue at either end. So queues are looked at way by way.
//
//   rank 0 sends on A   ways A -> B              whatever leaves A leaves B at that moment: one register
//   rank 2 sends on C   ways C -> D, C -> E      what goes to D is in C with what goes to E: three registers
//
// An eager message stands beside the receiver's queue. It counts as of it where something behind it waits;
// others may go elsewhere from the same sender, since whatever is in the receiver's queue waits for them at
// the sender. A receiver's queue that sends, too, is never the sender's: an eager message does not wait for
// what leaves there.

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

/// Two queues that hold the same messages, one stands for both.
void MessageWays::pair_queues() {
  // Who is at the other end of each queue: one, or several.
  for (const Way& way : ways_) {
    if (!way.is_of_queue) continue;
    note(way.sender, way.receiver);
    note(way.receiver, way.sender);
  }
  // The head's last rule: an eager message's receiving queue that sends, too, stays alone.
  std::vector<bool> sends(queues_.size(), false);
  for (const Way& way : ways_) sends[way.sender] = true;
  for (const Way& way : ways_) {
    if (way.eager && sends[way.receiver]) queues_[way.receiver].across = kSeveral;
  }
  // Equal are two that have each other, and only each other, at the other end.
  for (std::uint32_t queue = 0; queue < queues_.size(); ++queue) {
    const std::uint32_t across = queues_[queue].across;
    const bool equal = across < kSeveral && queues_[across].across == queue;
    if (equal) queues_[queue].stands_for = std::min(queue, across);
  }
}

/// Messages of the queue have `across` at their other end.
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
    // Nothing at the receiver holds an eager message up: what waits behind it there is told by compile.cpp.
    const Register receiver = ways_[way].eager ? sender : numbered(ways_[way].receiver);
    found.links.push_back({.c = sender, .e = receiver, .transfer = static_cast<std::int32_t>(way)});
    found.both_ends |= sender != receiver;
  }
  found.queue_count = next - first;
  return found;
}

}  // namespace penstock
