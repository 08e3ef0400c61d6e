// Searches for a plan: recurrences propose plans, and the simulator ranks them. A recurrence ignores effects
// that may decide between plans, such as shared links, the filling of the pipeline, and the order of
// reductions. So the optimum of a recurrence is only one of many plans from which the search starts:
//
//     starts --simulate--> the best dozen, and the best of each family --move while it helps--> the plan
//
// Neighbours are tried in the order of a lower bound of the period, which takes a microsecond to compute.
// Neighbours with a bound above the current period are not simulated, because they cannot be faster. If there
// are few plans, all are tried. scenarios/partition contains the recurrences. Tests:
// tests/sim/plan_search_test.cpp.

#include "sim/choose/plan_search.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/choose/plan_trials.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

namespace {

// If there are at most 1500 plans, trying all of them takes fewer simulations than a search by moves, and
// misses no plan.
constexpr std::int64_t kFewPlans = 1500;  // if there are at most this many plans, all are tried
constexpr std::int64_t kFirstShare = 32;  // number of simulations for each start in the first round
// The number of simulations for each variant of the best plan, as a share of the budget.
constexpr std::int64_t kShareOfVariants = 10;
constexpr int kMostLonger = 24;    // largest number of plans that get a longer stream
constexpr int kMostConfirmed = 3;  // largest number of plans that get a stream as long as in `simulate`
// The number of starts that are improved, in addition to the best start of each family.
constexpr std::size_t kImproved = 12;

/// A search for a plan. Each object runs one search. Every plan that may become the answer is passed to
/// attempt(), and `best_` is the best of these plans. A start is a plan from which the search improves.
class PlanSearch {
 public:
  PlanSearch(const Scenario& scenario, const PlanningTask& task, const PlanBudget& budget)
      : task_(task),
        budget_(budget),
        trials_(scenario, task),
        space_{.layers = trials_.layers(), .devices = trials_.devices(), .form = task.options.form} {}

  tl::expected<SearchedPlan, std::string> run() {
    if (!trials_.error().empty()) return tl::unexpected(trials_.error());
    const std::vector<PlanStart> starts = plan_starts(task_, trials_);
    const bool tries_all = count_choices(space_, kFewPlans + 1) <= kFewPlans;
    // The starts are always tried first. They are printed, and after a good start the bounds exclude most
    // other plans.
    try_starts(starts);
    if (tries_all) try_all();
    for (const PlanStart& best : best_of_families(starts)) try_starts(variants_of(best, task_));
    improve_all(to_improve());
    vary_best();
    const bool ran_out = left_out_ > 0 || has_no_actions_left();
    // This is the last step. A longer stream may show that the mean over a short one was too small.
    confirm();
    if (!best_ || !trials_.fits(*best_)) return tl::unexpected(nothing_fits());
    auto planned = trials_.scenario_of(*best_);
    if (!planned) return tl::unexpected(planned.error());
    return SearchedPlan{.planned = *std::move(planned),
                        .candidates = candidates(),
                        .simulations = trials_.simulations(),
                        .pruned = pruned_,
                        .actions = trials_.actions(),
                        .left_out = left_out_,
                        .ran_out = ran_out,
                        .tried_all = tries_all && !ran_out};
  }

 private:
  bool has_no_actions_left() const { return trials_.actions() >= budget_.actions; }
  bool is_spent() const { return trials_.simulations() >= budget_.simulations || has_no_actions_left(); }

  /// Returns true if `a` is better than `b` as the answer of the search. Memory decides only if the plans
  /// are otherwise equal.
  bool is_better(const PlanChoice& a, const PlanChoice& b) {
    if (is_faster(a, b)) return true;
    if (is_faster(b, a)) return false;
    return std::tuple(trials_.peak_bytes(a), a) < std::tuple(trials_.peak_bytes(b), b);
  }

  /// Returns true if a move from `b` to `a` improves the plan. Plans that fit in memory are better than
  /// others, and their periods are compared. An equal period is no improvement. Plans that do not fit are
  /// compared by memory. Plans that cannot run are the worst. If one plan fits, the memory of a slower plan
  /// is not simulated.
  bool is_faster(const PlanChoice& a, const PlanChoice& b) {
    const auto time_of = [&](const PlanChoice& choice) {
      return std::pair(trials_.of(choice).period_ns, choice.device_count());
    };
    // The faster plan is checked first. If it fits, the memory of the other one need not be simulated.
    const bool is_first = time_of(a) < time_of(b);
    if (trials_.fits(is_first ? a : b)) return is_first;
    if (trials_.fits(is_first ? b : a)) return !is_first;
    const auto memory_of = [&](const PlanChoice& choice) {
      return std::tuple(!trials_.runs(choice), trials_.peak_bytes(choice), choice.device_count());
    };
    return memory_of(a) < memory_of(b);
  }

  /// Returns true if lower bounds show that `choice` cannot be better than `than`. It does not simulate
  /// `choice`. Returns false if `than` does not fit in memory.
  bool is_ruled_out(const PlanChoice& choice, const PlanChoice& than) {
    // Any plan that fits is better than one that does not.
    if (!trials_.fits(than)) return false;
    return !trials_.may_fit(choice) || trials_.bound_ns(choice) > trials_.of(than).period_ns;
  }

  void attempt(const PlanChoice& choice) {
    if (!best_ || is_better(choice, *best_)) best_ = choice;
  }

  /// Calls `act` for all items in the order of the lower bounds of their periods, so that fast plans are
  /// known early. Plans that cannot fit in memory come last.
  template <class Item, class Do>
  void by_bound(std::vector<Item> items, const Do& act) {
    std::vector<std::tuple<bool, double, std::size_t>> order;
    order.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      const PlanChoice& choice = choice_of(items[i]);
      order.emplace_back(!trials_.may_fit(choice), trials_.bound_ns(choice), i);
    }
    std::ranges::sort(order);
    for (const auto& [cannot_fit, bound, i] : order) act(items[i]);
  }
  static const PlanChoice& choice_of(const PlanChoice& choice) { return choice; }
  static const PlanChoice& choice_of(const PlanStart& start) { return start.choice; }

  void try_starts(const std::vector<PlanStart>& starts) {
    by_bound(starts, [&](const PlanStart& start) {
      // At least one start of each family is always tried and printed. Bounds exclude only two-stage splits,
      // because nearly all starts are of this family.
      const bool is_seen = !seen_.insert(start.family).second;
      if (is_seen && start.family == PlanFamily::two_stages && is_ruled_out(start.choice, *best_)) {
        ++pruned_;
        return;
      }
      // The starts that follow have larger bounds, so they are left out. The second half of the budget is
      // then used for moves.
      if (is_seen && trials_.actions() >= budget_.actions / 2) {
        ++left_out_;
        return;
      }
      trials_.with_memory(start.choice);  // the memory is printed
      attempt(start.choice);
      tried_.push_back(start);
    });
  }

  /// Returns the candidates to print. Requires that confirm() has run, so that the best plan has the
  /// figures that `simulate` prints. If a start does not come from a recurrence, its predicted period is
  /// the one that the recurrence gives for its stages.
  std::vector<PlanCandidate> candidates() {
    std::vector<PlanCandidate> found;
    for (const PlanStart& start : tried_) {
      const Trial& trial = trials_.of(start.choice);
      found.push_back({.name = start.name,
                       .predicted_ns = start.promised_ns && task_.microbatches == 0
                                           ? *start.promised_ns
                                           : trials_.plan_of(start.choice).period_ns,
                       .simulated_ns = trial.period_ns,
                       .is_exact = trial.is_exact,
                       .peak_bytes = trials_.peak_bytes(start.choice),
                       .fits = trials_.fits(start.choice)});
    }
    return found;
  }

  void try_all() {
    by_bound(all_choices(space_), [&](const PlanChoice& choice) {
      if (!has_no_actions_left() && !is_ruled_out(choice, *best_)) attempt(choice);
    });
  }

  /// Returns the best start of each family of starts, in the order of the families.
  std::vector<PlanStart> best_of_families(const std::vector<PlanStart>& starts) {
    std::map<PlanFamily, const PlanStart*> best;
    for (const PlanStart& start : starts) {
      // A start that a bound has excluded was not simulated, so it has no known period.
      if (trials_.known(start.choice) == nullptr) continue;
      const PlanStart*& of_family = best[start.family];
      if (of_family == nullptr || is_better(start.choice, of_family->choice)) of_family = &start;
    }
    std::vector<PlanStart> found;
    found.reserve(best.size());
    for (const auto& [family, start] : best) found.push_back(*start);
    return found;
  }

  /// Returns the choices that moves will improve, each once. They are the best of all, the best dozen
  /// starts, and the best start of each family. Every family is included, because it may become the fastest
  /// after its cuts have moved.
  std::vector<PlanChoice> to_improve() {
    std::vector<PlanChoice> chosen;
    const auto add = [&](const PlanChoice& choice) {
      if (std::ranges::find(chosen, choice) == chosen.end()) chosen.push_back(choice);
    };
    if (best_) add(*best_);
    std::vector<PlanStart> sorted = tried_;
    std::ranges::sort(sorted,
                      [&](const PlanStart& a, const PlanStart& b) { return is_better(a.choice, b.choice); });
    for (std::size_t i = 0; i < std::min(kImproved, sorted.size()); ++i) add(sorted[i].choice);
    for (const PlanStart& start : best_of_families(tried_)) add(start.choice);
    return chosen;
  }

  /// Improves all starts in rounds. In the first round, each start may use a few simulations. In each
  /// further round, only the better half continues, with twice as many simulations. So the best starts get
  /// most simulations, but each start gets a few. The other starts continue at the end, while the budget of
  /// simulations lasts.
  void improve_all(std::vector<PlanChoice> front) {
    std::vector<PlanChoice> later;
    // Half of the starts, each with twice as many simulations, cost as much as the round before.
    for (std::int64_t share = kFirstShare; !front.empty(); share *= 2) {
      std::vector<PlanChoice> moving;
      for (const PlanChoice& start : front) {
        const std::optional<PlanChoice> reached = improved(start, share);
        if (reached && std::ranges::find(moving, *reached) == moving.end()) moving.push_back(*reached);
      }
      std::ranges::sort(moving, [&](const PlanChoice& a, const PlanChoice& b) { return is_better(a, b); });
      const auto half = moving.begin() + (std::ssize(moving) + 1) / 2;
      later.insert(later.end(), half, moving.end());
      front.assign(moving.begin(), half);
    }
    std::ranges::sort(later, [&](const PlanChoice& a, const PlanChoice& b) { return is_better(a, b); });
    for (const PlanChoice& start : later) improved(start, budget_.simulations);
  }

  /// Tries variants of the best plan, each with one changed property. The same changes were tried for the
  /// starts.
  void vary_best() {
    if (!best_) return;
    // The name and the family of this start are not printed, so any values will do.
    const PlanStart best{.family = PlanFamily::even, .name = "best", .choice = *best_};
    for (const PlanStart& variant : variants_of(best, task_)) {
      if (is_spent()) return;
      attempt(variant.choice);
      improved(variant.choice, budget_.simulations / kShareOfVariants);
    }
  }

  /// Improves a plan by moves. It takes the first move that helps, again and again, until no move helps or
  /// `share` simulations are used. Returns the improved plan. Returns nothing if the plan need not be
  /// improved further.
  std::optional<PlanChoice> improved(PlanChoice current, std::int64_t share) {
    const std::int64_t end = std::min(budget_.simulations, trials_.simulations() + share);
    const auto is_over = [&] { return trials_.simulations() >= end || has_no_actions_left(); };
    bool moves = true;
    while (moves && !is_over()) {
      moves = false;
      by_bound(neighbours(current, space_), [&](const PlanChoice& next) {
        if (moves || is_over() || is_ruled_out(next, current)) return;
        attempt(next);
        if (!is_faster(next, current)) return;
        current = next;
        moves = true;
      });
    }
    // If no move helps, the plan is final. If the plan has used its share of the budget, the search may
    // continue from it in the next round.
    if (is_spent() || (!moves && !is_over())) return std::nullopt;
    return current;
  }

  /// Simulates the best plans again with longer streams of minibatches. If a short stream has no exact
  /// period, its mean is only approximate. Longer streams decide among the best plans. Streams as long as
  /// those of `simulate` decide among the final ones.
  void confirm() {
    confirm(2, has_no_actions_left() ? 0 : kMostLonger);
    confirm(kStreamAttempts, kMostConfirmed);
    // If the best plan still has no confirmed period, the best plan with a confirmed period replaces it.
    if (best_ && !is_known(*best_, kStreamAttempts))
      take_best([&](const PlanChoice& choice) { return is_known(choice, kStreamAttempts); });
  }

  /// Returns true if the plan's period is exact, or if endless_stream() has made at least `attempts` attempts
  /// to find it.
  bool is_known(const PlanChoice& choice, int attempts) {
    const Trial& trial = trials_.of(choice);
    return trial.is_exact || trial.attempts >= attempts;
  }

  /// Simulates the best plan with a longer stream. If this shows a longer period, another plan may become
  /// the best. The step is then repeated for that plan, at most `most` times.
  void confirm(int attempts, int most) {
    for (int confirmed = 0; confirmed < most && best_ && !is_known(*best_, attempts); ++confirmed) {
      trials_.with_longer_stream(*best_, attempts);
      take_best([](const PlanChoice&) { return true; });
    }
  }

  /// Sets best_ to the best tried plan for which `is_meant` is true. All tried plans are compared, because
  /// the old best_ may have become slower in a longer simulation.
  template <class IsMeant>
  void take_best(const IsMeant& is_meant) {
    best_.reset();
    for (const PlanChoice& choice : trials_.tried_choices())
      if (is_meant(choice) && (!best_ || is_better(choice, *best_))) best_ = choice;
  }

  /// Returns the reason why no plan fits in memory. If a recurrence can name the layer that is too large,
  /// its message is used.
  std::string nothing_fits() {
    const auto plan =
        plan_pipeline(task_.layers, task_.levels, task_.options, task_.state_bytes_per_weight_byte);
    if (!plan) return plan.error();
    if (!best_ || !trials_.runs(*best_)) {
      return fmt::format(
          "no plan of {} that were tried runs: each hangs under these channels, or is too long",
          trials_.simulations());
    }
    return fmt::format(
        "no plan of {} that were simulated keeps within {} bytes a device: the least peak is {} bytes; take "
        "a smaller minibatch, more devices, or devices with more memory",
        trials_.simulations(), task_.options.memory_limit.value_or(0), trials_.peak_bytes(*best_));
  }

  const PlanningTask& task_;
  PlanBudget budget_;
  PlanTrials trials_;
  PlanSpace space_;
  std::set<PlanFamily> seen_;     // families of which a start was tried
  std::vector<PlanStart> tried_;  // starts in the order in which they were tried
  std::optional<PlanChoice> best_;
  std::int64_t pruned_ = 0;
  std::int64_t left_out_ = 0;
};

}  // namespace

tl::expected<SearchedPlan, std::string> search_plan(const Scenario& scenario, const PlanOptions& options,
                                                    const PlanBudget& budget) {
  PlanOptions ranked = options;
  // The objective affects only the recurrence's figures, which are printed with the simulated ones. The
  // ranking does not depend on it.
  ranked.objective = PlanObjective::maximum;
  const auto task = planning_task(scenario, ranked);
  if (!task) return tl::unexpected(task.error());
  // If the layers allow no plan at all, the error message of the recurrence is returned.
  PlanOptions anywhere = task->options;
  anywhere.memory_limit.reset();
  if (auto plan = plan_pipeline(task->layers, task->levels, anywhere); !plan)
    return tl::unexpected(plan.error());
  return PlanSearch(scenario, *task, budget).run();
}

tl::expected<PlannedScenario, std::string> plan_by(PlanRanking ranking, const Scenario& scenario,
                                                   const PlanOptions& options) {
  switch (ranking) {
    case PlanRanking::simulated:
      // Callers of this function need many plans, so each gets only a twentieth of the usual budget.
      return search_plan(scenario, options,
                         {.simulations = PlanBudget{}.simulations / 20, .actions = PlanBudget{}.actions / 20})
          .map([](SearchedPlan found) { return std::move(found.planned); });
    case PlanRanking::recurrence:
      break;
  }
  return plan_scenario(scenario, options);
}

}  // namespace penstock
