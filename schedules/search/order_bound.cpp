// What keeps a rank from its work, whatever the order. A rank has stages a .. z of the model (a = z with one
// chunk), M microbatches, and memory for `limit` bytes.
//
//   head   From the end of its first F(a) to its first I(z), some microbatch goes from a through all later
//          stages and back to z. Until then nothing is released: only F run, as many as memory holds.
//
//            idle >= way(a -> z and back) - (units - 1) F,  units = floor(limit / kept)
//
//   tail   From the end of its last F, which is one of z, to that microbatch's I(a), the microbatch goes
//          from z to the end and back to a. Until then only I and W run of what memory holds at that moment.
//
//            idle >= way(z and back -> a) - own I and W on that way
//                    - max{ x (I + W) + y W :  x kept + y (kept - released) <= limit - kept }
//
//   If M exceeds what fits, the last F comes behind the first I, so that both are lost; otherwise the larger.
//
//   room   A microbatch holds kept from F to the end of I, which is the way from the stage and back, and what
//          is left until the end of W. All that, times bytes, is at most limit x span.
//
// A rank's span is at least its work and head and tail, and at least room. Before its first F the first
// microbatch must come to it, which the makespan counts, too. Where chunks differ, the units are those of the
// chunk that is best for the order.

#include "schedules/search/order_bound.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/search_effort.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

constexpr std::int64_t kAnyCount = std::numeric_limits<std::int32_t>::max();

/// How many of `size` bytes fit into `room`; 0 where it is negative.
std::int64_t fitting(Bytes room, Bytes size) {
  if (room < 0) return 0;
  return size <= 0 ? kAnyCount : std::min(kAnyCount, room / size);
}

/// Times of the way of a microbatch that meets nobody.
class Way {
 public:
  explicit Way(const OrderCosts& costs) : costs_(costs) {}

  /// From the start of F of the first stage to the start of F of `stage`.
  Ns to(std::size_t stage) const { return forward(0, stage); }
  /// From the end of F of `from`, through the last stage, to the start of I of `to`.
  Ns around(std::size_t from, std::size_t to) const {
    // forward() goes from start to start: without the F that it begins with, and with the last one.
    Ns way = forward(from, last()) - costs_.stages[from].forward_ns + costs_.stages[last()].forward_ns;
    for (std::size_t stage = last(); stage > to; --stage)
      way += costs_.stages[stage].backward_input_ns + delay(stage - 1);
    return way;
  }

 private:
  std::size_t last() const { return costs_.stages.size() - 1; }
  Ns delay(std::size_t stage) const {
    return costs_.rank_of[stage] == costs_.rank_of[stage + 1] ? 0 : costs_.transfer_ns[stage];
  }
  /// Between the starts of F of two stages.
  Ns forward(std::size_t from, std::size_t to) const {
    Ns way = 0;
    for (std::size_t stage = from; stage < to; ++stage) way += costs_.stages[stage].forward_ns + delay(stage);
    return way;
  }

  const OrderCosts& costs_;
};

/// A rank's chunks, and of each figure the one that makes the bound lowest: a bound may be too low, never too
/// high.
struct RankWork {
  std::vector<std::size_t> stages;
  Bytes limit = 0;
  std::int64_t microbatches = 0;
  Ns busy = 0;
  Ns longest_forward = 0;
  Ns longest_backward = 0;  // I and W
  Ns longest_weight = 0;
  Bytes least_kept = std::numeric_limits<Bytes>::max();
  Bytes least_owed = std::numeric_limits<Bytes>::max();  // between I and W

  std::int64_t units() const { return microbatches * std::ssize(stages); }
  /// F that memory holds.
  std::int64_t fitting_forwards() const { return std::min(units(), fitting(limit, least_kept)); }
};

std::vector<RankWork> work_of_ranks(const OrderCosts& costs) {
  std::vector<RankWork> ranks(costs.memory_limit.size());
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageCost& cost = costs.stages[stage];
    RankWork& rank = ranks[index(costs.rank_of[stage])];
    rank.stages.push_back(stage);
    rank.limit = costs.memory_limit[index(costs.rank_of[stage])];
    rank.microbatches = costs.microbatches;
    const Ns backward = cost.backward_input_ns + cost.backward_weight_ns;
    rank.busy += costs.microbatches * (cost.forward_ns + backward);
    rank.longest_forward = std::max(rank.longest_forward, cost.forward_ns);
    rank.longest_backward = std::max(rank.longest_backward, backward);
    rank.longest_weight = std::max(rank.longest_weight, cost.backward_weight_ns);
    rank.least_kept = std::min(rank.least_kept, cost.kept);
    rank.least_owed = std::min(rank.least_owed, cost.kept - cost.released_by_input);
  }
  return ranks;
}

/// The idle time before the rank's first I is there (above).
Ns head(const OrderCosts& costs, const RankWork& rank) {
  const Ns way = Way(costs).around(rank.stages.front(), rank.stages.back());
  // One less, since the way begins at the end of the first of them.
  return std::max<Ns>(0, way - (rank.fitting_forwards() - 1) * rank.longest_forward);
}

/// The most work of I and W in `room` bytes, of so many microbatches a stage.
Ns most_backward_work(const RankWork& rank, Bytes room, std::int64_t units) {
  Ns most = 0;
  // Two sorts of things fill the room: microbatches with I and W to come, and such whose W alone is left.
  // All numbers of the first sort are tried, since neither is the better one for all costs.
  for (std::int64_t whole = std::min(units, fitting(room, rank.least_kept)); whole >= 0; --whole) {
    const std::int64_t owed =
        std::min(units - whole, fitting(room - whole * rank.least_kept, rank.least_owed));
    most = std::max(most, whole * rank.longest_backward + owed * rank.longest_weight);
  }
  return most;
}

/// The idle time behind its last F.
Ns tail(const OrderCosts& costs, const RankWork& rank) {
  // The microbatch itself is held by all chunks of the rank until its I come; the others have what is
  // left.
  Ns own = 0;
  Bytes room = rank.limit;
  for (const std::size_t stage : rank.stages) {
    const StageCost& cost = costs.stages[stage];
    room -= cost.kept;
    if (stage != rank.stages.front()) own += cost.backward_input_ns + cost.backward_weight_ns;
  }
  const Ns way = Way(costs).around(rank.stages.back(), rank.stages.front());
  const Ns filling = most_backward_work(rank, room, rank.units() - std::ssize(rank.stages));
  return std::max<Ns>(0, way - own - filling);
}

/// The shortest span in which memory has room for all microbatches, one after the other.
Ns room_for_all(const OrderCosts& costs, const RankWork& rank) {
  if (rank.limit <= 0) return 0;
  double byte_ns = 0;
  for (const std::size_t stage : rank.stages) {
    const StageCost& cost = costs.stages[stage];
    const Ns until_input = cost.forward_ns + Way(costs).around(stage, stage) + cost.backward_input_ns;
    byte_ns += static_cast<double>(cost.kept) * static_cast<double>(until_input);
    byte_ns += static_cast<double>(cost.kept - cost.released_by_input) *
               static_cast<double>(cost.backward_weight_ns);
  }
  // A sum that is rounded up would be no bound any more.
  constexpr double kRounding = 1 - 1e-12;
  return static_cast<Ns>(kRounding * byte_ns * static_cast<double>(rank.microbatches) /
                         static_cast<double>(rank.limit));
}

/// From the rank's first start to its last end.
Ns shortest_span(const OrderCosts& costs, const RankWork& rank) {
  const bool first_input_may_be_late = rank.units() <= rank.fitting_forwards();
  const Ns before = head(costs, rank);
  const Ns after = tail(costs, rank);
  const Ns idle = first_input_may_be_late ? std::max(before, after) : before + after;
  return std::max(rank.busy + idle, room_for_all(costs, rank));
}

}  // namespace

Ns shortest_possible(const OrderCosts& costs, Objective objective) {
  Ns longest = 0;
  for (const RankWork& rank : work_of_ranks(costs)) {
    const Ns late = objective == Objective::makespan ? Way(costs).to(rank.stages.front()) : 0;
    longest = std::max(longest, late + shortest_span(costs, rank));
  }
  return longest;
}

}  // namespace penstock
