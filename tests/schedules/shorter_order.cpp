// Actions are put in order of their starts (by rank where they start together), so that each order comes up
// once. A rank pauses at least until the last start so far; where that and its work come to `length`, none of
// what follows is shorter.

#include "tests/schedules/shorter_order.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

constexpr std::array kKindsOfOrder = {ActionKind::forward, ActionKind::backward_input,
                                      ActionKind::backward_weight};

struct Rank {
  Ns first_start = -1;
  Ns free_at = 0;
  Ns work_left = 0;
  Bytes kept = 0;
};

/// Depth first: whatever may start next is started and, where that leads to nothing shorter, taken back.
class Search {
 public:
  Search(const OrderCosts& costs, Objective objective, Ns length, std::int64_t steps)
      : costs_(costs),
        objective_(objective),
        length_(length),
        steps_(steps),
        ranks_(costs.memory_limit.size()),
        counts_(costs.stages.size(), {0, 0, 0}),
        forward_ends_(costs.stages.size()),
        input_ends_(costs.stages.size()) {
    for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
      for (const ActionKind kind : kKindsOfOrder)
        rank_of(stage).work_left += costs.microbatches * duration_ns(costs.stages[stage], kind);
    }
    left_ = costs.microbatches * std::ssize(costs.stages) * 3;
  }

  ShorterOrder run() {
    if (extend(0, 0)) return ShorterOrder::exists;
    return steps_ < 0 ? ShorterOrder::unknown : ShorterOrder::impossible;
  }

 private:
  Rank& rank_of(std::size_t stage) { return ranks_[index(costs_.rank_of[stage])]; }
  Ns delay(std::size_t lower) const {
    return costs_.rank_of[lower] == costs_.rank_of[lower + 1] ? 0 : costs_.transfer_ns[lower];
  }

  /// When the next of its kind may start on its stage; -1: not known.
  Ns arrival(std::size_t stage, std::size_t kind) const {
    const std::size_t m = index(counts_[stage][kind]);
    if (m == index(costs_.microbatches)) return -1;
    if (kind == 0) {
      if (stage == 0) return 0;
      return m < forward_ends_[stage - 1].size() ? forward_ends_[stage - 1][m] + delay(stage - 1) : -1;
    }
    if (kind == 2) return m < input_ends_[stage].size() ? 0 : -1;
    if (m >= forward_ends_[stage].size()) return -1;
    if (stage + 1 == costs_.stages.size()) return forward_ends_[stage][m];
    return m < input_ends_[stage + 1].size() ? input_ends_[stage + 1][m] + delay(stage) : -1;
  }

  /// Some rank cannot be shorter than `length` any more, if nothing starts before `now`.
  bool is_too_long(Ns now) const {
    return std::ranges::any_of(ranks_, [&](const Rank& rank) {
      const bool counts_late_start = objective_ == Objective::makespan;
      const Ns free_at = rank.work_left > 0 ? std::max(rank.free_at, now) : rank.free_at;
      if (rank.first_start < 0) return (counts_late_start ? now : 0) + rank.work_left >= length_;
      return free_at + rank.work_left - (counts_late_start ? 0 : rank.first_start) >= length_;
    });
  }

  bool extend(Ns now, std::int32_t last_rank) {
    if (left_ == 0) return !is_too_long(now);
    for (std::size_t stage = 0; stage < costs_.stages.size(); ++stage) {
      for (std::size_t kind = 0; kind < kKindsOfOrder.size(); ++kind) {
        if (try_next(stage, kind, now, last_rank)) return true;
        if (steps_ < 0) return false;
      }
    }
    return false;
  }

  /// Starts the next action of the stage and kind as early as it can, unless that is before the last start:
  /// such an order has been tried with the two the other way round.
  bool try_next(std::size_t stage, std::size_t kind, Ns now, std::int32_t last_rank) {
    const Ns arrives = arrival(stage, kind);
    const std::int32_t number = costs_.rank_of[stage];
    Rank& rank = rank_of(stage);
    const Ns start = std::max(rank.free_at, arrives);
    if (arrives < 0 || start < now || (start == now && number < last_rank)) return false;
    const StageCost& cost = costs_.stages[stage];
    if (kind == 0 && rank.kept + cost.kept > costs_.memory_limit[index(number)]) return false;
    if (--steps_ < 0) return false;
    const Rank before = rank;
    const Ns takes = duration_ns(cost, kKindsOfOrder[kind]);
    if (rank.first_start < 0) rank.first_start = start;
    rank.free_at = start + takes;
    rank.work_left -= takes;
    rank.kept += kind == 0 ? cost.kept : -released_activations_of(cost, kind);
    ++counts_[stage][kind];
    --left_;
    if (kind == 0) forward_ends_[stage].push_back(rank.free_at);
    if (kind == 1) input_ends_[stage].push_back(rank.free_at);
    const bool found = !is_too_long(start) && extend(start, number);
    if (kind == 0) forward_ends_[stage].pop_back();
    if (kind == 1) input_ends_[stage].pop_back();
    ++left_;
    --counts_[stage][kind];
    rank = before;
    return found;
  }

  static Bytes released_activations_of(const StageCost& cost, std::size_t kind) {
    return kind == 1 ? cost.released_by_input : cost.kept - cost.released_by_input;
  }

  const OrderCosts& costs_;
  Objective objective_;
  Ns length_;
  std::int64_t steps_;
  std::vector<Rank> ranks_;
  std::vector<std::array<std::int32_t, 3>> counts_;  // by stage and kind
  std::vector<std::vector<Ns>> forward_ends_;        // by stage and microbatch
  std::vector<std::vector<Ns>> input_ends_;
  std::int64_t left_ = 0;
};

}  // namespace

ShorterOrder shorter_order(const OrderCosts& costs, Objective objective, Ns length, std::int64_t steps) {
  return Search(costs, objective, length, steps).run();
}

}  // namespace penstock
