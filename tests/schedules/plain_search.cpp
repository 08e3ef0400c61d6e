// Computes the times of lists in rounds. In each round, every rank advances as far as it can, until no rank
// can advance.

#include "tests/schedules/plain_search.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/search/order_follower.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

constexpr std::int64_t kMostVisits = std::int64_t{1} << 23;

enum class Output { activation, gradient };

class Clock {
 public:
  explicit Clock(const OrderCosts& costs) : costs_(costs) {}

  std::optional<Ns> arrival(const Action& action) const {
    const auto own = made(Output::activation, action.stage, action.microbatch);
    if (action.kind == ActionKind::backward_weight)
      return made(Output::gradient, action.stage, action.microbatch);
    if (action.kind == ActionKind::forward) {
      if (action.stage == 0) return 0;
      return after(made(Output::activation, action.stage - 1, action.microbatch), action.stage - 1);
    }
    if (!own || index(action.stage) + 1 == costs_.stages.size()) return own;
    const auto gradient = after(made(Output::gradient, action.stage + 1, action.microbatch), action.stage);
    return gradient ? std::optional(std::max(*own, *gradient)) : std::nullopt;
  }

  void end(const Action& action, Ns time) {
    if (action.kind == ActionKind::forward)
      ends_[{Output::activation, action.stage, action.microbatch}] = time;
    if (makes_input_gradient(action.kind)) ends_[{Output::gradient, action.stage, action.microbatch}] = time;
  }

 private:
  std::optional<Ns> made(Output output, std::int32_t stage, std::int32_t microbatch) const {
    const auto found = ends_.find({output, stage, microbatch});
    return found == ends_.end() ? std::nullopt : std::optional(found->second);
  }

  std::optional<Ns> after(std::optional<Ns> time, std::int32_t lower_stage) const {
    const bool stays = costs_.rank_of[index(lower_stage)] == costs_.rank_of[index(lower_stage) + 1];
    return time ? std::optional(*time + (stays ? 0 : costs_.transfer_ns[index(lower_stage)])) : std::nullopt;
  }

  const OrderCosts& costs_;
  std::map<std::tuple<Output, std::int32_t, std::int32_t>, Ns> ends_;
};

/// Returns true if the two actions must keep their order. Actions of one kind and stage keep their order, and
/// a backward stays after its forward.
bool follows_from(const Action& earlier, const Action& later) {
  return earlier.stage == later.stage &&
         (earlier.kind == later.kind || earlier.microbatch == later.microbatch);
}

/// One run that follows an order. TimedLists computes the times.
class PlainFollower {
 public:
  PlainFollower(const OrderCosts& costs, const PreferredOrder& order, const FollowOptions& way)
      : way_(way), lists_(costs), order_(order), owed_(order.size()), warm_(order.size(), true) {
    for (std::int32_t rank = 0; rank < lists_.rank_count(); ++rank) wakings_.emplace(0, rank);
  }

  std::optional<Lists> run() {
    while (!wakings_.empty()) {
      const auto [now, rank] = wakings_.top();
      wakings_.pop();
      if (now >= lists_.free_at_ns(rank)) act(rank, now);
    }
    Lists lists;
    for (std::int32_t rank = 0; rank < lists_.rank_count(); ++rank) {
      if (!order_[index(rank)].empty()) return std::nullopt;
      while (lists_.owes_weight(rank)) lists_.place_owed_weight(rank);
      lists.push_back(lists_.list(rank));
    }
    return lists;
  }

 private:
  struct Sight {
    std::optional<std::size_t> ready;
    std::optional<Ns> next_arrival;
    bool needs_memory = false;
  };

  Sight look(std::int32_t rank, Ns now) const {
    const std::vector<Action>& order = order_[index(rank)];
    const std::int32_t ahead =
        warm_[index(rank)] ? std::max(way_.look_ahead, way_.warm_up_look_ahead) : way_.look_ahead;
    Sight sight;
    for (std::size_t at = 0; at < std::min(order.size(), index(ahead) + 1); ++at) {
      const auto arrival = lists_.arrival_ns(order[at]);
      if (!arrival) continue;
      if (order[at].kind == ActionKind::forward && !lists_.fits(order[at])) {
        if (*arrival > now || sight.next_arrival || !lists_.fits_without_owed(order[at])) continue;
        return {.ready = {}, .next_arrival = {}, .needs_memory = true};
      }
      if (*arrival <= now) return {.ready = at, .next_arrival = {}};
      sight.next_arrival = std::min(*arrival, sight.next_arrival.value_or(*arrival));
    }
    return sight;
  }

  void act(std::int32_t rank, Ns now) {
    const Sight sight = look(rank, now);
    if (sight.ready) {
      take(rank, *sight.ready, now);
    } else if (lists_.owes_weight(rank) && weight_suits(rank, sight, now)) {
      owed_[index(rank)].pop_front();
      lists_.place_owed_weight(rank, now);
      wakings_.emplace(lists_.free_at_ns(rank), rank);
    }
  }

  bool weight_suits(std::int32_t rank, const Sight& sight, Ns now) const {
    if (sight.needs_memory || !sight.next_arrival) return true;
    const Ns gap = *sight.next_arrival - now;
    const Ns duration = lists_.costs().stages[index(owed_[index(rank)].front())].backward_weight_ns;
    if (gap >= duration / 4 * way_.weight_quarters + duration % 4 * way_.weight_quarters / 4) return true;
    return way_.overrun && lists_.idle_ns(rank) + gap > lists_.most_idle_ns();
  }

  /// Removes the action from the rest of the order, and wakes the rank that uses its output.
  void take(std::int32_t rank, std::size_t at, Ns now) {
    std::vector<Action>& order = order_[index(rank)];
    const Action action = order[at];
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(at));
    if (action.kind != ActionKind::forward) warm_[index(rank)] = false;
    if (action.kind == ActionKind::backward_input) owed_[index(rank)].push_back(action.stage);
    lists_.place(action, now);
    wakings_.emplace(lists_.free_at_ns(rank), rank);
    const std::int32_t stage = action.stage + (action.kind == ActionKind::forward ? 1 : -1);
    if (stage < 0 || index(stage) >= lists_.costs().stages.size()) return;
    const auto arrival =
        lists_.arrival_ns({.kind = action.kind, .stage = stage, .microbatch = action.microbatch});
    if (arrival) wakings_.emplace(*arrival, lists_.costs().rank_of[index(stage)]);
  }

  using Waking = std::pair<Ns, std::int32_t>;

  FollowOptions way_;
  TimedLists lists_;
  PreferredOrder order_;  // the rest of each rank's order
  // By rank, the stages of the Ws that have not run although their I has run.
  std::vector<std::deque<std::int32_t>> owed_;
  std::vector<bool> warm_;
  std::priority_queue<Waking, std::vector<Waking>, std::greater<>> wakings_;
};

}  // namespace

bool PlainTimes::is_shorter_than(const PlainTimes& other) const {
  return std::tie(longest_span_ns, sum_of_ends_ns) < std::tie(other.longest_span_ns, other.sum_of_ends_ns);
}

std::optional<PlainTimes> plain_times(const Lists& lists, const OrderCosts& costs) {
  PlainTimes times{.ends = std::vector<std::vector<Ns>>(lists.size()),
                   .waits_for_rank = std::vector<std::vector<bool>>(lists.size())};
  Clock clock(costs);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
      while (times.ends[rank].size() < lists[rank].size()) {
        const Action& action = lists[rank][times.ends[rank].size()];
        const auto arrival = clock.arrival(action);
        if (!arrival) break;
        const Ns start = std::max(*arrival, times.ends[rank].empty() ? 0 : times.ends[rank].back());
        times.ends[rank].push_back(start + duration_ns(costs.stages[index(action.stage)], action.kind));
        times.waits_for_rank[rank].push_back(*arrival < start && action.kind != ActionKind::backward_weight);
        times.sum_of_ends_ns += times.ends[rank].back();
        clock.end(action, times.ends[rank].back());
        moved = true;
      }
    }
  }
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (times.ends[rank].size() < lists[rank].size()) return std::nullopt;
    const Action& first = lists[rank].front();
    const Ns start = times.ends[rank].front() - duration_ns(costs.stages[index(first.stage)], first.kind);
    times.longest_span_ns = std::max(times.longest_span_ns, times.ends[rank].back() - start);
  }
  return times;
}

bool plainly_fits(const Lists& lists, const OrderCosts& costs) {
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    Bytes kept = 0;
    for (const Action& action : lists[rank]) {
      const StageCost& cost = costs.stages[index(action.stage)];
      if (action.kind == ActionKind::forward) kept += cost.kept;
      kept -= released_activations(cost, action.kind);
      if (kept > costs.memory_limit[rank]) return false;
    }
  }
  return true;
}

/// Tries every move on a copy of the lists, and computes all times of the copy from the beginning.
Lists plain_squeeze(Lists lists, const OrderCosts& costs) {
  PlainTimes best = *plain_times(lists, costs);
  Ns least = 0;
  std::int64_t actions = 0;
  for (const auto& list : lists) {
    Ns busy = 0;
    for (const Action& action : list) busy += duration_ns(costs.stages[index(action.stage)], action.kind);
    least = std::max(least, busy);
    actions += static_cast<std::int64_t>(list.size());
  }
  std::int64_t visits = 0;
  const auto finished = [&] { return visits >= kMostVisits || best.longest_span_ns == least; };
  const auto try_move = [&](std::size_t rank, std::size_t from, std::size_t to) {
    if (!best.waits_for_rank[rank][from] || follows_from(lists[rank][to], lists[rank][from])) return false;
    Lists moved = lists;
    const auto place = [&](std::size_t at) { return moved[rank].begin() + static_cast<std::ptrdiff_t>(at); };
    std::rotate(place(to), place(from), place(from + 1));
    if (!plainly_fits(moved, costs)) return false;
    visits += actions;
    const auto times = plain_times(moved, costs);
    if (!times || !times->is_shorter_than(best)) return false;
    best = *times;
    lists = std::move(moved);
    return true;
  };
  for (bool improved = true; improved && !finished();) {
    improved = false;
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
      for (std::size_t from = 1; from < lists[rank].size(); ++from) {
        for (std::size_t reach = 1; reach <= std::min<std::size_t>(2, from) && !finished(); ++reach) {
          improved |= try_move(rank, from, from - reach);
        }
      }
    }
  }
  return lists;
}

std::optional<Lists> plain_follow(const OrderCosts& costs, const PreferredOrder& order,
                                  const FollowOptions& way) {
  return PlainFollower(costs, order, way).run();
}

}  // namespace penstock
