// A rank's clock increases by at least the duration of each action. Suppose that one rank sends all messages
// of a queue when its actions end, and no message holds the queue longer than such an action takes. Then the
// queue is free before the next message comes:
//
//   rank 0      | 0F0   | 0F1   |       0F1 ends at least one duration after 0F0
//   queue 0>1           |-hold-|        the hold ends earlier

#include "sim/engines/queue_senders.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

std::optional<std::vector<std::uint32_t>> QueueSenders::of(const Tape& tape) const {
  if (!only_clocks_ || tape.both_ends) return std::nullopt;
  std::vector<std::int32_t> rank_of(tape.register_count, -1);  // for each queue its only sender, or -1
  for (const LinkClass& link : tape.links) {
    if (link.transfer == LinkClass::kNoTransfer) continue;
    std::int32_t& rank = rank_of[link.c];
    const std::int32_t sender = tape.transfers[index(link.transfer)].from_rank;
    // Messages of two ranks may come in any order.
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
  // The longest hold of all queues is compared with the shortest sender of all queues, because a pass follows
  // either all queues or none.
  Ns longest_hold = 0;
  for (const PricedLink& link : links) longest_hold = std::max(longest_hold, link.hold_ns);
  const bool any_shorter = durations.empty() || std::ranges::any_of(*tape.senders, [&](std::uint32_t sender) {
                             return durations[sender] < longest_hold;
                           });
  return longest_hold > 0 && any_shorter ? QueuesFollowed::one_end : QueuesFollowed::none;
}

}  // namespace penstock
