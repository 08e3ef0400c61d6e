#pragma once
// The routes of messages from rank to rank in a streamed walk (streamed_walk.cpp): their prices and queues. A
// route is created when the first message takes it.

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

/// The route of messages of one stage edge and direction between two ranks.
struct TransferWay {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  std::size_t sender_queue = 0;
  std::size_t receiver_queue = 0;
  Ns hold_ns = 0;
  Ns latency_ns = 0;
  Bytes bytes = 0;            ///< bytes of one message
  std::int64_t messages = 0;  ///< number of messages that have taken the route
};

class TransferWays {
 public:
  /// Keeps references to both arguments, which must outlive this object.
  TransferWays(const Experiment& experiment, const EdgeNumbers& edges);

  /// Returns the route of a message. `number` is the number of the message's edge and direction
  /// (schedules/passes/action_ways.hpp).
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

  /// Returns the start of a message that is ready at `ready_ns`. It starts after all earlier messages of its
  /// two queues.
  Ns start(const TransferWay& way, Ns ready_ns) {
    Ns& leaves = queues_[way.sender_queue].free_ns;
    Ns& enters = queues_[way.receiver_queue].free_ns;
    const Ns start_ns = std::max({ready_ns, leaves, enters});
    leaves = enters = start_ns + way.hold_ns;
    return start_ns;
  }

  /// Calls `see` for every route.
  template <class See>
  void for_each(const See& see) {
    for (EdgeWays& ways : ways_) {
      if (ways.first.from_rank != kNoRank) see(ways.first);
      for (TransferWay& way : ways.others) see(way);
    }
  }

  /// Shows the state to a visitor. If a queue is free by the clocks of all its senders (`clock_of(rank)`),
  /// its time has no effect and is not shown.
  template <class State, class ClockOf>
  void show(State& state, const ClockOf& clock_of) {
    state.same(std::ssize(queues_));
    for (Queue& queue : queues_) {
      // If old times were shown, they would never move with the others, and no two moments would be alike.
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

  /// The first route is stored in place, because an edge usually has no other route.
  struct EdgeWays {
    TransferWay first{.from_rank = kNoRank};
    std::vector<TransferWay> others;
  };
  struct Queue {
    Ns free_ns = 0;
    std::vector<std::int32_t> senders;  // ranks that send through the queue
  };

  TransferWay new_way(const StageMessage& message, std::size_t number, std::int32_t from_rank,
                      std::int32_t to_rank);
  std::size_t queue_at(std::int32_t rank, std::size_t number, std::int32_t sender);

  const Experiment& experiment_;
  const EdgeNumbers& edges_;
  TransferPrices prices_;
  std::vector<EdgeWays> ways_;  // index: edge and flow
  std::vector<Queue> queues_;
  std::map<std::pair<std::int32_t, std::size_t>, std::size_t> queue_numbers_;  // key: rank, and queue at the
                                                                               // rank
};

}  // namespace penstock
