// Numbers the classes of a tape, and assigns registers to its queues, while compile.cpp or turn_tape.cpp
// writes the tape.
//
// Many instructions of a tape take equally long. So an instruction does not store its duration, but the
// number of a duration class. Two actions have the same class if they have the same kind and stage and if
// their microbatches cost the same. The class of a single action is found in a table by its stage, its kind
// and its group of equal microbatches. Two actions that overlap are one instruction, whose class is found
// action by action, as a path in a tree:
//
//   (0F5;3B2)   first 0F -> its place in the table; then (0F, 3B) -> number of that pair
//
// Classes are numbered in the order of their first use, which is also their order on the tape.

#include "sim/engines/tape_writer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

namespace {

/// Returns the entry at `place`. Extends the table with `unknown` if it is too short.
std::uint32_t& entry(std::vector<std::uint32_t>& table, std::size_t place, std::uint32_t unknown) {
  if (place >= table.size()) table.resize(place + 1, unknown);
  return table[place];
}

}  // namespace

TapeClasses::TapeClasses(const MicrobatchGroups& groups, std::int32_t ranks, Tape& tape)
    : groups_(groups), ranks_(static_cast<Register>(ranks)), tape_(tape) {
  tape_.durations.emplace_back();
  tape_.links.reserve(4 * index(ranks));
  for (Register clock = 0; clock < ranks_; ++clock) tape_.links.push_back({.c = clock, .e = clock});
}

std::uint32_t TapeClasses::new_single(std::uint32_t place, std::span<const Action> group) {
  return entry(single_, place, kNoClass) = new_duration(group, false);
}

std::uint32_t TapeClasses::longer_group(std::span<const Action> group) {
  // The key contains the number of leaves. Without it, the place of a first leaf could equal the number of a
  // longer group.
  std::uint32_t leaves = place_of(group.front());
  std::uint32_t count = 1;
  for (const Action& leaf : group.subspan(1)) leaves = longer_.of({count++, leaves, place_of(leaf)}).number;
  std::uint32_t& known = entry(of_longer_, leaves, kNoClass);
  if (known == kNoClass) known = new_duration(group, false);
  return known;
}

std::uint32_t TapeClasses::new_duration(std::span<const Action> actions, bool launches) {
  tape_.durations.push_back({.first = static_cast<std::uint32_t>(tape_.class_actions.size()),
                             .count = static_cast<std::uint32_t>(actions.size()),
                             .launches = launches});
  tape_.class_actions.insert(tape_.class_actions.end(), actions.begin(), actions.end());
  return static_cast<std::uint32_t>(tape_.durations.size() - 1);
}

std::uint32_t TapeClasses::link_of_further(Register a) {
  std::uint32_t& known = entry(unlinked_, a - ranks_, kNoClass);
  if (known != kNoClass) return known;
  tape_.links.push_back({.c = a, .e = a});
  return known = static_cast<std::uint32_t>(tape_.links.size() - 1);
}

// Messages of one stage edge and direction between the same two ranks pass the same queues, so they have one
// route. If microbatches have different costs, each group has its own route. Two queues get one register if
// they hold the messages of the same routes:
//
//   rank 0 sends on A   route A -> B            a message leaves A and B at the same moment: one register
//   rank 2 sends on C   routes C -> D, C -> E   C holds the messages of D and of E: three registers
//
// An eager message does not wait in the receiver's queue. It counts as a message of this queue only if a
// later message waits behind it there. It always counts as a message of the sender's queue: above, if C -> E
// is eager, C still holds a message that D does not hold, so C and D have two registers. If a rank also sends
// messages through the queue in which it receives eager messages, this queue has its own register. The eager
// messages do not wait for the messages that the rank sends.

MessageWays::MessageWays(const ChannelOptions& channels, const MicrobatchGroups& groups, std::size_t ways)
    : channels_(channels), groups_(groups) {
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
      {static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(queue_of(channels_, end))});
  if (is_new) queues_.push_back({.stands_for = queue});
  return queue;
}

/// Finds pairs of queues that hold the same messages. Both queues of a pair then use the register of one of
/// them.
void MessageWays::pair_queues() {
  // Finds for each queue the queue at the other end of its messages, or kSeveral. Every message passes the
  // sender's queue, but an eager one may pass without the receiver's queue.
  for (const Way& way : ways_) {
    note(way.sender, way.receiver);
    if (way.is_of_queue) note(way.receiver, way.sender);
  }
  // The queue in which a rank receives eager messages is not paired if the rank also sends through it. The
  // comment above gives the reason.
  std::vector<bool> sends(queues_.size(), false);
  for (const Way& way : ways_) sends[way.sender] = true;
  for (const Way& way : ways_) {
    if (way.eager && sends[way.receiver]) queues_[way.receiver].across = kSeveral;
  }
  // Queues A and B hold the same messages if all messages of A pass B at their other end, and all messages of
  // B pass A.
  for (std::uint32_t queue = 0; queue < queues_.size(); ++queue) {
    const std::uint32_t across = queues_[queue].across;
    const bool equal = across < kSeveral && queues_[across].across == queue;
    if (equal) queues_[queue].stands_for = std::min(queue, across);
  }
}

/// Records that the messages of `queue` pass the queue `across` at their other end.
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
    // An eager message does not wait at the receiver. compile.cpp handles messages that wait behind it.
    const Register receiver = ways_[way].eager ? sender : numbered(ways_[way].receiver);
    found.links.push_back({.c = sender, .e = receiver, .transfer = static_cast<std::int32_t>(way)});
    found.both_ends |= sender != receiver;
  }
  found.queue_count = next - first;
  return found;
}

// Suppose that a single rank sends all messages of a queue, each at the end of an action, and that no message
// occupies the queue longer than such an action takes. Then the queue is free before the next message comes:
//
//   rank 0      | 0F0   | 0F1   |       0F1 ends at least one duration after 0F0
//   queue 0>1           |-hold-|        the hold ends earlier

std::optional<std::vector<std::uint32_t>> QueueSenders::of(const Tape& tape) const {
  if (!only_clocks_ || tape.both_ends) return std::nullopt;
  std::vector<std::int32_t> rank_of(tape.register_count, -1);  // only sender of each queue, or -1
  for (const LinkClass& link : tape.links) {
    if (link.transfer == LinkClass::kNoTransfer) continue;
    std::int32_t& rank = rank_of[link.c];
    const std::int32_t sender = tape.transfers[index(link.transfer)].from_rank;
    // If several ranks send through the queue, it may still be busy when a message comes.
    if (rank != -1 && rank != sender) return std::nullopt;
    rank = sender;
  }
  std::vector<std::uint32_t> senders;
  for (std::uint32_t duration = 0; duration < sends_.size(); ++duration) {
    if (sends_[duration]) senders.push_back(duration);
  }
  return senders;
}

QueuesFollowed queues_followed(const Tape& tape, std::span<const PricedLink> links,
                               std::span<const Ns> durations) {
  if (tape.both_ends) return QueuesFollowed::both_ends;
  if (!tape.senders) return QueuesFollowed::one_end;
  // A pass follows either all queues or none, so the longest hold of all queues is compared with the shortest
  // action that sends.
  Ns longest_hold = 0;
  for (const PricedLink& link : links) longest_hold = std::max(longest_hold, link.hold_ns);
  const bool any_shorter = durations.empty() || std::ranges::any_of(*tape.senders, [&](std::uint32_t sender) {
                             return durations[sender] < longest_hold;
                           });
  return longest_hold > 0 && any_shorter ? QueuesFollowed::one_end : QueuesFollowed::none;
}

}  // namespace penstock
