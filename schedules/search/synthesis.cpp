// Searches from different seeds get stuck in different places, and nobody knows beforehand which. So they
// compete in brackets: eight fresh searches make a few passes each, the better half goes on for twice as
// many, and so on until one is left, which then meets the best of the brackets before. Each bracket makes
// twice the passes of the one before it, whatever effort was asked for: a larger effort goes through the same
// searches and then further.
//
//   bracket   8 x n   4 x 2n   2 x 4n   1 x 8n   champion and challenger: n = 4, 8, 16, ... passes

#include "schedules/search/synthesis.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/mixed_bits.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/search_effort.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/order_bound.hpp"
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
constexpr std::int64_t kSlice = 8;  // passes between two looks at the clock

/// Searches, the champion in front. `spent_` counts actions placed by all of them, also by those that are
/// gone.
class Tournament {
 public:
  Tournament(const OrderCosts& costs, Objective objective, const SearchEffort& effort, Ns bound)
      : costs_(costs), objective_(objective), effort_(effort), bound_(bound), end_(Clock::now()) {
    end_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(effort.budget_seconds));
    // Rules that aim at the bound and those of the table come first: where they meet the bound nothing
    // else runs.
    add_search();
    actions_of_a_pass_ = searches_.front().actions_of_a_pass();
    start_from(rules_aimed_at(bound, costs));
    start_from(starting_rules(costs));
  }

  void run() {
    for (std::int64_t passes = kFirstPasses; !is_over(); passes *= 2) run_bracket(passes);
  }
  /// That were made by all searches; one that was begun counts.
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
    // The clock is asked only where time is limited: otherwise nothing depends on it.
    if (spent_ >= effort_.passes * actions_of_a_pass_ || best().is_optimal()) return true;
    return effort_.budget_seconds > 0 && Clock::now() >= end_;
  }

  void add_search() {
    // Mixed, so that the searches of seed 2 are not those of seed 1 but for the first.
    searches_.emplace_back(costs_, objective_, mixed(effort_.seed) + next_seed_++, bound_);
  }

  /// The first search is the best of the brackets before.
  void run_bracket(std::int64_t passes) {
    // Every bracket's searches have seeds of their own; the champion stays in front and is not sorted with
    // them.
    while (searches_.size() <= kSearches) add_search();
    for (std::size_t left = kSearches; left > 0 && !is_over(); left /= 2, passes *= 2) {
      for (std::size_t number = 1; number <= left && !is_over(); ++number) go_on(searches_[number], passes);
      std::stable_sort(searches_.begin() + 1, searches_.end(), [](const RuleSearch& a, const RuleSearch& b) {
        return a.best().length < b.best().length;
      });
      searches_.erase(searches_.begin() + 1 + static_cast<std::ptrdiff_t>(std::max<std::size_t>(1, left / 2)),
                      searches_.end());
    }
    // As many passes as the last one left has made: `passes` was doubled once more behind it.
    if (!is_over()) go_on(searches_.front(), passes / 2);
    std::ranges::stable_sort(searches_, {}, length_of_search);
    searches_.erase(searches_.begin() + 1, searches_.end());
  }

  /// In slices, between which the time is looked at.
  void go_on(RuleSearch& search, std::int64_t passes) {
    const std::int64_t before = search.placed_actions();
    // A search counts what it placed itself, `spent_` what all of them did.
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

Ns length_of(const Lists& lists, const OrderCosts& costs, Objective objective) {
  const RetimedLists timed(lists, costs);
  if (objective == Objective::span) return timed.length().longest_span_ns;
  return timed.last_end_ns();
}

Synthesis synthesize(const OrderCosts& costs, Objective objective, const SearchEffort& effort,
                     const std::vector<Lists>& known) {
  Synthesis best{
      .lists = {}, .length_ns = RatedRules::kUnknownLength, .bound_ns = shortest_possible(costs, objective)};
  const auto offer = [&](Lists lists) {
    const Ns length = length_of(lists, costs, objective);
    if (length >= best.length_ns) return;
    best.length_ns = length;
    best.lists = std::move(lists);
  };
  for (const Lists& lists : known) offer(lists);
  if (effort.passes == 0 || best.length_ns <= best.bound_ns) return best;
  Tournament tournament(costs, objective, effort, best.bound_ns);
  tournament.run();
  best.passes = tournament.passes();
  if (tournament.best().best().length < best.length_ns) offer(tournament.best().lists());
  // It shortens spans. Where the makespan is asked for its lists count only if that is shorter as well.
  offer(squeeze(best.lists, costs));
  return best;
}

Program searched(Program program, const OrderCosts& costs, const Shape& shape) {
  if (shape.costs)
    program.ranks = synthesize(costs, shape.objective, shape.effort, {std::move(program.ranks)}).lists;
  append_steps(program);
  return program;
}

}  // namespace penstock
