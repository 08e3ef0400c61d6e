// Computes how short an order can be at best. A rank cannot avoid some idle time, whatever the order. The
// rank has stages a .. z of the model (a = z with one chunk), M microbatches, and memory for `limit` bytes.
//
//   head   Some microbatch must go from the end of the first F(a), through all later stages, to the first
//          I(z). No memory is released until then, so only as many F run as memory holds.
//
//            idle >= path(a -> z and back) - (units - 1) F,  units = floor(limit / kept)
//
//   tail   The microbatch of the last F, which is an F of z, must go from z to the end and back to I(a).
//          Until then only I and W run, of microbatches that memory holds at that moment.
//
//            idle >= path(z and back -> a) - own I and W on that path
//                    - max{ x (I + W) + y W :  x kept + y (kept - released) <= limit - kept }
//
//   If M exceeds what fits, the last F comes after the first I and both times are lost; otherwise only the
//   larger one is.
//
//   room   A microbatch holds `kept` bytes from F to the end of I, which is the path from the stage and back,
//          and the rest until the end of W. The sum of bytes x time is at most limit x span.
//
// A rank's span is at least its work plus head plus tail, and at least room. The makespan also counts the
// time until the first microbatch reaches the rank. If chunks differ, each term uses the chunk that makes the
// bound lowest. Tested by synthesis_test.cpp, against all orders of small cases.

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

/// Returns how many items of `size` bytes fit into `room`, or 0 if `room` is negative.
std::int64_t fitting(Bytes room, Bytes size) {
  if (room < 0) return 0;
  return size <= 0 ? kAnyCount : std::min(kAnyCount, room / size);
}

/// The times of a microbatch that never waits for another one.
class FreePath {
 public:
  explicit FreePath(const OrderCosts& costs) : costs_(costs) {}

  /// Returns the time from the start of F on the first stage to the start of F on `stage`.
  Ns to(std::size_t stage) const { return forward(0, stage); }
  /// Returns the time from the end of F on `from`, through the last stage, to the start of I on `to`.
  Ns around(std::size_t from, std::size_t to) const {
    // forward() counts from start to start, so the first F is subtracted and the last one added.
    Ns path = forward(from, last()) - costs_.stages[from].forward_ns + costs_.stages[last()].forward_ns;
    for (std::size_t stage = last(); stage > to; --stage)
      path += costs_.stages[stage].backward_input_ns + delay(stage - 1);
    return path;
  }

 private:
  std::size_t last() const { return costs_.stages.size() - 1; }
  Ns delay(std::size_t stage) const {
    return costs_.rank_of[stage] == costs_.rank_of[stage + 1] ? 0 : costs_.transfer_ns[stage];
  }
  /// Returns the time between the starts of F on two stages.
  Ns forward(std::size_t from, std::size_t to) const {
    Ns path = 0;
    for (std::size_t stage = from; stage < to; ++stage)
      path += costs_.stages[stage].forward_ns + delay(stage);
    return path;
  }

  const OrderCosts& costs_;
};

/// A rank's chunks. Each figure is that of the chunk that makes the bound lowest, because a bound may be too
/// low but never too high.
struct RankWork {
  std::vector<std::size_t> stages;
  Bytes limit = 0;
  std::int64_t microbatches = 0;
  Ns busy = 0;
  Ns longest_forward = 0;
  Ns longest_backward = 0;  // I and W
  Ns longest_weight = 0;
  Bytes least_kept = std::numeric_limits<Bytes>::max();
  Bytes least_owed = std::numeric_limits<Bytes>::max();  // held between I and W

  std::int64_t units() const { return microbatches * std::ssize(stages); }
  /// Returns how many F fit into memory.
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

/// Returns the idle time before the rank's first I (see the top of this file).
Ns head(const OrderCosts& costs, const RankWork& rank) {
  const Ns path = FreePath(costs).around(rank.stages.front(), rank.stages.back());
  // One F fewer, because the path begins at the end of the first one.
  return std::max<Ns>(0, path - (rank.fitting_forwards() - 1) * rank.longest_forward);
}

/// Returns the most work of I and W on at most `units` microbatches a stage that fit into `room` bytes.
Ns most_backward_work(const RankWork& rank, Bytes room, std::int64_t units) {
  Ns most = 0;
  // Two kinds of microbatches fill the room: those with I and W to do, and those with only W to do. All
  // numbers of the first kind are tried, because either kind may be better.
  for (std::int64_t whole = std::min(units, fitting(room, rank.least_kept)); whole >= 0; --whole) {
    const std::int64_t owed =
        std::min(units - whole, fitting(room - whole * rank.least_kept, rank.least_owed));
    most = std::max(most, whole * rank.longest_backward + owed * rank.longest_weight);
  }
  return most;
}

/// Returns the idle time after the rank's last F.
Ns tail(const OrderCosts& costs, const RankWork& rank) {
  // All chunks of the rank hold the microbatch itself until its I comes, so the other microbatches have the
  // remaining memory.
  Ns own = 0;
  Bytes room = rank.limit;
  for (const std::size_t stage : rank.stages) {
    const StageCost& cost = costs.stages[stage];
    room -= cost.kept;
    if (stage != rank.stages.front()) own += cost.backward_input_ns + cost.backward_weight_ns;
  }
  const Ns path = FreePath(costs).around(rank.stages.back(), rank.stages.front());
  const Ns filling = most_backward_work(rank, room, rank.units() - std::ssize(rank.stages));
  return std::max<Ns>(0, path - own - filling);
}

/// Returns the shortest span in which memory has room for all microbatches, one after the other.
Ns room_for_all(const OrderCosts& costs, const RankWork& rank) {
  if (rank.limit <= 0) return 0;
  double byte_ns = 0;
  for (const std::size_t stage : rank.stages) {
    const StageCost& cost = costs.stages[stage];
    const Ns until_input = cost.forward_ns + FreePath(costs).around(stage, stage) + cost.backward_input_ns;
    byte_ns += static_cast<double>(cost.kept) * static_cast<double>(until_input);
    byte_ns += static_cast<double>(cost.kept - cost.released_by_input) *
               static_cast<double>(cost.backward_weight_ns);
  }
  // If the sum were rounded up, the result would not be a bound.
  constexpr double kRounding = 1 - 1e-12;
  return static_cast<Ns>(kRounding * byte_ns * static_cast<double>(rank.microbatches) /
                         static_cast<double>(rank.limit));
}

/// Returns a bound on the time from the rank's first start to its last end.
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
    const Ns late = objective == Objective::makespan ? FreePath(costs).to(rank.stages.front()) : 0;
    longest = std::max(longest, late + shortest_span(costs, rank));
  }
  return longest;
}

}  // namespace penstock
