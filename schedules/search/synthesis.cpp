// Finds the best order by several searches. Searches from different seeds get stuck at different lengths, and
// nobody can tell which before. So they compete in brackets. Eight fresh searches make a few passes each, the
// better half continues with twice as many, and so on until one is left, which competes with the best of the
// brackets before. Each bracket makes twice the passes of the previous one, independent of the effort. So a
// larger effort runs the same searches as a smaller one and then continues.
//
//   bracket   8 x n   4 x 2n   2 x 4n   1 x 8n   champion and challenger: n = 4, 8, 16, ... passes
//
// A search fills the memory that it is given. So the same length is finally tried with less memory, by
// bisection between the memory of one microbatch and that of the best order. Tested by synthesis_test.cpp.

#include "schedules/search/synthesis.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/mixed_bits.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/search_effort.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/order_bound.hpp"
#include "schedules/search/order_builder.hpp"
#include "schedules/search/order_rules.hpp"
#include "schedules/search/retimed_lists.hpp"
#include "schedules/search/rule_search.hpp"
#include "schedules/search/squeeze.hpp"
#include "schedules/search/starting_rules.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

using Lists = std::vector<std::vector<Action>>;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kSearches = 8;
constexpr std::int64_t kFirstPasses = 4;
constexpr std::int64_t kSlice = 8;  // passes between two checks of the clock
// A named schedule stops its search after so many placed actions, unless the user states the passes. Of 40
// larger searches with v-half and v-min, up to 32 ranks and 256 microbatches, one was 0.5 % longer for it.
constexpr std::int64_t kMostPlaced = std::int64_t{1} << 21;

/// The competing searches, the best of earlier brackets (the champion) first. `spent_` counts actions placed
/// by all searches, including removed ones.
class Tournament {
 public:
  Tournament(const OrderCosts& costs, Objective objective, const SearchEffort& effort, Ns bound)
      : costs_(costs), objective_(objective), effort_(effort), bound_(bound), end_(Clock::now()) {
    end_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(effort.budget_seconds));
    // Rules that aim at the bound and those of the table come first. If they meet the bound, nothing else
    // runs.
    add_search();
    actions_of_a_pass_ = searches_.front().actions_of_a_pass();
    start_from(rules_aimed_at(bound, costs));
    start_from(starting_rules(costs));
  }

  void run() {
    for (std::int64_t passes = kFirstPasses; !is_over(); passes *= 2) run_bracket(passes);
  }
  /// Returns the passes of all searches; an incomplete pass counts.
  std::int64_t passes() const { return (spent_ + actions_of_a_pass_ - 1) / actions_of_a_pass_; }
  RuleSearch& best() { return *std::ranges::min_element(searches_, {}, length_of_search); }

 private:
  static Ns length_of_search(const RuleSearch& search) { return search.best().length; }

  void start_from(const std::vector<OrderRules>& starts) {
    for (const OrderRules& rules : starts) {
      if (is_over()) return;
      searches_.front().try_rules(rules);
      spent_ = searches_.front().placed_actions();
    }
  }

  bool is_over() {
    // The clock is read only if time is limited, because otherwise the result must not depend on it.
    if (spent_ >= effort_.passes * actions_of_a_pass_ || best().is_optimal()) return true;
    return effort_.budget_seconds > 0 && Clock::now() >= end_;
  }

  void add_search() {
    // The seed is hashed, so that the searches of seed 2 are not those of seed 1 without the first.
    searches_.emplace_back(costs_, objective_, mixed(effort_.seed) + next_seed_++, bound_);
  }

  /// Runs a bracket against the first search, which is the best of the brackets before.
  void run_bracket(std::int64_t passes) {
    // Every bracket's searches have new seeds. The champion stays first and is not sorted with them.
    while (searches_.size() <= kSearches) add_search();
    for (std::size_t left = kSearches; left > 0 && !is_over(); left /= 2, passes *= 2) {
      for (std::size_t number = 1; number <= left && !is_over(); ++number) go_on(searches_[number], passes);
      std::stable_sort(searches_.begin() + 1, searches_.end(), [](const RuleSearch& a, const RuleSearch& b) {
        return a.best().length < b.best().length;
      });
      searches_.erase(searches_.begin() + 1 + static_cast<std::ptrdiff_t>(std::max<std::size_t>(1, left / 2)),
                      searches_.end());
    }
    // The champion gets as many passes as the last search of the bracket has made; the loop has doubled
    // `passes` once more.
    if (!is_over()) go_on(searches_.front(), passes / 2);
    std::ranges::stable_sort(searches_, {}, length_of_search);
    searches_.erase(searches_.begin() + 1, searches_.end());
  }

  /// Continues a search in slices, between which the clock is read.
  void go_on(RuleSearch& search, std::int64_t passes) {
    const std::int64_t before = search.placed_actions();
    // The search counts only its own actions, while `spent_` counts those of all searches.
    const std::int64_t spent_before = spent_;
    const std::int64_t end = before + passes * actions_of_a_pass_;
    while (search.placed_actions() < end && !search.is_optimal() && !is_over()) {
      const std::int64_t left = effort_.passes * actions_of_a_pass_ - spent_;
      search.go_on(std::min({kSlice * actions_of_a_pass_, end - search.placed_actions(), left}));
      spent_ = spent_before + search.placed_actions() - before;
    }
  }

  const OrderCosts& costs_;
  Objective objective_;
  SearchEffort effort_;
  Ns bound_;
  Clock::time_point end_;
  std::vector<RuleSearch> searches_;
  std::uint64_t next_seed_ = 0;
  std::int64_t actions_of_a_pass_ = 0;
  std::int64_t spent_ = 0;
};

}  // namespace

namespace {

/// The figures that decide between orders, the most important first.
struct Merit {
  Ns length = RatedRules::kUnknownLength;
  /// The peak of the fullest rank.
  Bytes peak = 0;
  Ns makespan = 0;

  friend auto operator<=>(const Merit&, const Merit&) = default;
};

Bytes highest_peak(const Lists& lists, const OrderCosts& costs) {
  Bytes highest = 0;
  for (const std::vector<Action>& list : lists) highest = std::max(highest, peak_kept(list, costs));
  return highest;
}

Merit merit_of(const Lists& lists, const OrderCosts& costs, Objective objective) {
  const RetimedLists timed(lists, costs);
  Merit merit{.makespan = timed.last_end_ns()};
  merit.length = objective == Objective::span ? timed.length().longest_span_ns : merit.makespan;
  merit.peak = highest_peak(lists, costs);
  return merit;
}

/// The best of all orders that were offered.
class BestOrder {
 public:
  BestOrder(const OrderCosts& costs, Objective objective) : costs_(costs), objective_(objective) {}

  void offer(Lists lists) {
    const Merit merit = merit_of(lists, costs_, objective_);
    if (merit >= merit_) return;
    merit_ = merit;
    lists_ = std::move(lists);
  }
  /// Offers lists that are only better if their peak is lower; other lists are not timed.
  void offer_smaller(Lists lists) {
    if (highest_peak(lists, costs_) < merit_.peak) offer(std::move(lists));
  }
  void offer_all(std::vector<Lists> orders) {
    for (Lists& lists : orders) offer(std::move(lists));
  }
  const Merit& merit() const { return merit_; }
  const Lists& lists() const { return lists_; }

 private:
  const OrderCosts& costs_;
  Objective objective_;
  Merit merit_;
  Lists lists_;
};

OrderCosts within(OrderCosts costs, Bytes most) {
  for (Bytes& limit : costs.memory_limit) limit = std::min(limit, most);
  return costs;
}

/// Offers the orders that the rules `starts` give in the memory of `costs`.
void offer_built(BestOrder& best, const OrderCosts& costs, Objective objective,
                 const std::vector<OrderRules>& starts) {
  OrderBuilder builder(costs, objective, costs.microbatches);
  for (const OrderRules& rules : starts) {
    if (builder.run(rules, best.merit().length)) best.offer(builder.lists());
  }
}

/// Searches orders as short as the best one with less and less memory. `champion` holds the rules of the best
/// search.
void lower_memory(BestOrder& best, const OrderCosts& costs, Objective objective, const KnownOrders& known,
                  const std::vector<OrderRules>& champion) {
  constexpr Bytes kMostParts = 1024;  // bounds the steps if one stage holds very little
  Bytes least_kept = std::numeric_limits<Bytes>::max();
  for (const StageCost& stage : costs.stages) least_kept = std::min(least_kept, stage.kept);
  const Bytes step = std::max({Bytes{1}, least_kept, best.merit().peak / kMostParts});
  Bytes too_little = most_kept_by_one_microbatch(costs) - 1;
  while (best.merit().peak - too_little > 1) {
    // The step is a whole activation, because a limit between two numbers of activations allows only the
    // lower number.
    const Bytes parts = (best.merit().peak - too_little - 1 + step - 1) / step;
    const Bytes most = std::min(too_little + (parts + 1) / 2 * step, best.merit().peak - 1);
    const OrderCosts smaller = within(costs, most);
    for (Lists& lists : known(smaller, best.merit().length)) best.offer_smaller(std::move(lists));
    if (best.merit().peak > most) offer_built(best, smaller, objective, champion);
    if (best.merit().peak > most) too_little = most;
  }
}

/// Returns the effort of the shape. Unless the user states the passes, they place at most kMostPlaced
/// actions.
SearchEffort limited_effort(const Program& program, const Shape& shape) {
  SearchEffort effort = shape.effort;
  if (effort.passes != SearchEffort::kDefaultPasses) return effort;
  const std::int64_t actions = std::int64_t{3} * program.microbatches * program.stage_count();
  effort.passes = std::clamp<std::int64_t>(kMostPlaced / actions, 1, effort.passes);
  return effort;
}

}  // namespace

Ns length_of(const Lists& lists, const OrderCosts& costs, Objective objective) {
  return merit_of(lists, costs, objective).length;
}

Synthesis synthesize(const OrderCosts& costs, Objective objective, const SearchEffort& effort,
                     const KnownOrders& known, MemoryUse use) {
  Synthesis found{.bound_ns = shortest_possible(costs, objective)};
  BestOrder best(costs, objective);
  best.offer_all(known(costs, kAnyLength));
  std::vector<OrderRules> champion;
  if (effort.passes > 0 && best.merit().length > found.bound_ns) {
    Tournament tournament(costs, objective, effort, found.bound_ns);
    tournament.run();
    found.passes = tournament.passes();
    champion.push_back(tournament.best().best().rules);
    if (tournament.best().best().length <= best.merit().length) best.offer(tournament.best().lists());
    // squeeze() shortens spans. If the objective is the makespan, its lists count only if the makespan is
    // shorter, too.
    best.offer(squeeze(best.lists(), costs));
  }
  if (use == MemoryUse::least) lower_memory(best, costs, objective, known, champion);
  found.lists = best.lists();
  found.length_ns = best.merit().length;
  return found;
}

Program searched(Program program, const OrderCosts& costs, const Shape& shape, const KnownOrders& known) {
  SearchEffort effort = limited_effort(program, shape);
  if (!shape.costs) effort.passes = 0;
  program.ranks = synthesize(costs, shape.objective, effort, known).lists;
  append_steps(program);
  return program;
}

Program searched(Program program, const OrderCosts& costs, const Shape& shape) {
  if (!shape.costs) {
    append_steps(program);
    return program;
  }
  const auto known = [&](const OrderCosts& /*within*/, Ns /*longest*/) {
    return std::vector<Lists>{program.ranks};
  };
  program.ranks =
      synthesize(costs, shape.objective, limited_effort(program, shape), known, MemoryUse::up_to_limit).lists;
  append_steps(program);
  return program;
}

}  // namespace penstock
