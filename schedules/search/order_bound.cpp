// Computes a lower bound on the length of an order. In every order, a rank has some idle time that it cannot
// avoid. The rank has the stages a .. z of the model (a = z with one chunk), M microbatches, and `limit`
// bytes of memory.
//
//   head   A microbatch must go from the end of the first F(a), through all later stages, to the first I(z).
//          No memory is released before that, so the rank can only run as many F as fit into memory.
//
//            idle >= path(a -> z and back) - (units - 1) F,  units = floor(limit / kept)
//
//   tail   The microbatch of the last F, which is an F of z, must go from z to the end and back to I(a).
//          Before that the rank can only run I and W of microbatches that are in memory at that moment.
//
//            idle >= path(z and back -> a) - own I and W on that path
//                    - max{ x (I + W) + y W :  x kept + y (kept - released) <= limit - kept }
//
//   If M microbatches do not fit into memory, the last F comes after the first I, and the rank loses both
//   times. Otherwise it loses only the larger one.
//
//   room   A microbatch stores `kept` bytes from F to the end of I: the path from the stage to the last stage
//          and back. It stores the rest until the end of W. The sum of bytes x time is at most limit x span.
//
// The span of a rank is at least its work plus head plus tail, and at least room. The makespan also contains
// the time until the first microbatch reaches the rank. If chunks differ, each term uses the chunk with the
// lowest bound. Tested by synthesis_test.cpp, against all orders of small cases.

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

/// Returns the number of items of `size` bytes that fit into `room`. Returns 0 if `room` is negative.
std::int64_t fitting(Bytes room, Bytes size) {
  if (room < 0) return 0;
  return size <= 0 ? kAnyCount : std::min(kAnyCount, room / size);
}

/// The times of a microbatch that never waits for other microbatches.
class FreePath {
 public:
  explicit FreePath(const OrderCosts& costs) : costs_(costs) {}

  /// Returns the time from the start of F on the first stage to the start of F on `stage`.
  Ns to(std::size_t stage) const { return forward(0, stage); }
  /// Returns the time from the end of F on `from`, through the last stage, to the start of I on `to`.
  Ns around(std::size_t from, std::size_t to) const {
    // forward() counts from start to start, so the first F is subtracted and the last F is added.
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
  /// Returns the time from the start of F on `from` to the start of F on `to`.
  Ns forward(std::size_t from, std::size_t to) const {
    Ns path = 0;
    for (std::size_t stage = from; stage < to; ++stage)
      path += costs_.stages[stage].forward_ns + delay(stage);
    return path;
  }

  const OrderCosts& costs_;
};

/// The chunks of a rank. Each value belongs to the chunk with the lowest bound, because a bound may be too
/// low but never too high.
struct RankWork {
  std::vector<std::size_t> stages;
  Bytes limit = 0;
  std::int64_t microbatches = 0;
  Ns busy = 0;
  Ns longest_forward = 0;
  Ns longest_backward = 0;  // the longest I and W together
  Ns longest_weight = 0;
  Bytes least_kept = std::numeric_limits<Bytes>::max();
  Bytes least_owed = std::numeric_limits<Bytes>::max();  // stored between I and W

  std::int64_t units() const { return microbatches * std::ssize(stages); }
  /// Returns the number of F actions that fit into memory.
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
  // The path begins at the end of the first F, so this F does not count.
  return std::max<Ns>(0, path - (rank.fitting_forwards() - 1) * rank.longest_forward);
}

/// Returns the most work of I and W that fits into `room` bytes, with at most `units` microbatches of a
/// stage.
Ns most_backward_work(const RankWork& rank, Bytes room, std::int64_t units) {
  Ns most = 0;
  // Some microbatches in `room` still need I and W, and the others need only W. The loop tries all numbers of
  // the first kind, because either kind may give more work.
  for (std::int64_t whole = std::min(units, fitting(room, rank.least_kept)); whole >= 0; --whole) {
    const std::int64_t owed =
        std::min(units - whole, fitting(room - whole * rank.least_kept, rank.least_owed));
    most = std::max(most, whole * rank.longest_backward + owed * rank.longest_weight);
  }
  return most;
}

/// Returns the idle time after the rank's last F.
Ns tail(const OrderCosts& costs, const RankWork& rank) {
  // All chunks of the rank store the last microbatch until its I, so the other microbatches have the
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

/// Returns the shortest span in which `limit` bytes are enough for all microbatches.
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
  // A sum that is rounded up would not be a lower bound.
  constexpr double kRounding = 1 - 1e-12;
  return static_cast<Ns>(kRounding * byte_ns * static_cast<double>(rank.microbatches) /
                         static_cast<double>(rank.limit));
}

/// Returns a lower bound on the time from the rank's first start to its last end.
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
