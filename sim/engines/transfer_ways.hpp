#pragma once
// The ways that messages of a streamed walk (streamed_walk.cpp) take from rank to rank: prices, and the
// queues that they pass, each found when the first message takes it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "sim/engines/kept_state.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {

/// Messages of one stage edge and direction between two ranks.
struct TransferWay {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  std::size_t sender_queue = 0;
  std::size_t receiver_queue = 0;
  Ns hold_ns = 0;
  Ns latency_ns = 0;
  Bytes bytes = 0;            ///< of a message
  std::int64_t messages = 0;  ///< that have taken it
};

class TransferWays {
 public:
  /// Both must outlive the ways.
  TransferWays(const Experiment& experiment, const EdgeNumbers& edges);

  /// `number` is that of the message's edge and direction (schedules/passes/action_ways.hpp).
  TransferWay& way_of(const StageMessage& message, std::size_t number, std::int32_t from_rank,
                      std::int32_t to_rank) {
    EdgeWays& ways = ways_[number];
    const auto leads = [&](const TransferWay& way) {
      return way.from_rank == from_rank && way.to_rank == to_rank;
    };
    if (leads(ways.first)) return ways.first;
    if (ways.first.from_rank == kNoRank) return ways.first = new_way(message, number, from_rank, to_rank);
    const auto known = std::ranges::find_if(ways.others, leads);
    if (known != ways.others.end()) return *known;
    return ways.others.emplace_back(new_way(message, number, from_rank, to_rank));
  }

  /// When a message that is there at `ready_ns` starts: behind what is before it in its queues.
  Ns start(const TransferWay& way, Ns ready_ns) {
    Ns& leaves = queues_[way.sender_queue].free_ns;
    Ns& enters = queues_[way.receiver_queue].free_ns;
    const Ns start_ns = std::max({ready_ns, leaves, enters});
    leaves = enters = start_ns + way.hold_ns;
    return start_ns;
  }

  /// Shows every way to `see`.
  template <class See>
  void for_each(const See& see) {
    for (EdgeWays& ways : ways_) {
      if (ways.first.from_rank != kNoRank) see(ways.first);
      for (TransferWay& way : ways.others) see(way);
    }
  }

  /// `clock_of(rank)`: a queue that is free before all that will be sent through it does not matter.
  template <class State, class ClockOf>
  void show(State& state, const ClockOf& clock_of) {
    state.same(std::ssize(queues_));
    for (Queue& queue : queues_) {
      // Shown, a time of long ago would never move with the others, and no moment would be like an earlier
      // one.
      const auto matters = [&](std::int32_t sender) { return queue.free_ns > clock_of(sender); };
      if (state.flag(std::ranges::any_of(queue.senders, matters))) state.time(queue.free_ns);
    }
    for_each([&](TransferWay& way) {
      state.same(way.to_rank);
      state.count(way.messages);
    });
  }

 private:
  static constexpr std::int32_t kNoRank = -1;

  /// The first way lies with those of other edges, since mostly there is no other.
  struct EdgeWays {
    TransferWay first{.from_rank = kNoRank};
    std::vector<TransferWay> others;
  };
  struct Queue {
    Ns free_ns = 0;
    std::vector<std::int32_t> senders;  // of what passes it
  };

  TransferWay new_way(const StageMessage& message, std::size_t number, std::int32_t from_rank,
                      std::int32_t to_rank);
  std::size_t queue_at(std::int32_t rank, std::size_t number, std::int32_t sender);

  const Experiment& experiment_;
  const EdgeNumbers& edges_;
  TransferPrices prices_;
  std::vector<EdgeWays> ways_;  // by edge and flow
  std::vector<Queue> queues_;
  std::map<std::pair<std::int32_t, std::size_t>, std::size_t> queue_numbers_;  // by rank and number there
};

}  // namespace penstock
