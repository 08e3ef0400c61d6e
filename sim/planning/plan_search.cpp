// Recurrences propose, the simulator ranks. What a recurrence leaves out (links in common, filling, the order
// of reductions) decides between plans, so that its optimum is one start among many:
//
//   starts --simulate--> the best dozen, and the best of each family --move while it helps--> the plan
//
// Moves go through the neighbours in the order of a bound that costs a microsecond, up to the current period:
// no plan beyond can be faster. Where all plans are few, all are tried.

#include "sim/planning/plan_search.hpp"

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

#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/prepare/planning_task.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/planning/plan_choice.hpp"
#include "sim/planning/plan_starts.hpp"
#include "sim/planning/plan_trials.hpp"
#include "sim/runs/endless_stream.hpp"

namespace penstock {
namespace {

// Up to 1500 plans are all tried: fewer simulations than a search by moves may take, and nothing is missed.
constexpr std::int64_t kFewPlans = 1500;       // all of which are tried
constexpr std::int64_t kFirstShare = 32;       // simulations of each start before the first choice
constexpr std::int64_t kShareOfVariants = 10;  // each variant of the best plan has a tenth of the simulations
constexpr int kMostLonger = 24;                // plans that are given a longer stream
constexpr int kMostSettled = 3;                // and one as long as `simulate` takes
constexpr std::size_t kImproved = 12;          // starts, beside the best of each family

/// One search, run once. best_ is the best of all trials so far; whoever tries a plan for its own sake goes
/// through attempt(), so that no trial is lost, however its start fares.
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
    // Starts first in any case: they are what is printed, and a good one lets bounds rule out most of all
    // plans.
    try_starts(starts);
    if (tries_all) try_all();
    for (const PlanStart& best : best_of_families(starts)) try_starts(variants_of(best, task_));
    improve_all(to_improve());
    vary_best();
    const bool ran_out = left_out_ > 0 || has_no_actions_left();
    // Last, since it may find that a mean over a short stream flattered what seemed best.
    settle();
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

  /// What it holds is asked only between plans that are equal otherwise.
  bool is_better(const PlanChoice& a, const PlanChoice& b) {
    if (is_faster(a, b)) return true;
    if (is_faster(b, a)) return false;
    return std::tuple(trials_.peak_bytes(a), a) < std::tuple(trials_.peak_bytes(b), b);
  }

  /// Worth a step: on a plateau of equal periods no step is. What fits comes first, by its time; of the rest,
  /// what holds least, and last what cannot run, whose memory nobody knows. The memory of what is slower than
  /// something that fits is never asked.
  bool is_faster(const PlanChoice& a, const PlanChoice& b) {
    const auto time_of = [&](const PlanChoice& choice) {
      return std::pair(trials_.of(choice).period_ns, choice.device_count());
    };
    // The one that is faster is asked first, so that memory is simulated of as few plans as possible.
    const bool is_first = time_of(a) < time_of(b);
    if (trials_.fits(is_first ? a : b)) return is_first;
    if (trials_.fits(is_first ? b : a)) return !is_first;
    const auto memory_of = [&](const PlanChoice& choice) {
      return std::tuple(!trials_.runs(choice), trials_.peak_bytes(choice), choice.device_count());
    };
    return memory_of(a) < memory_of(b);
  }

  /// True where no simulation can make the choice better than `than`.
  bool is_ruled_out(const PlanChoice& choice, const PlanChoice& than) {
    // What does not fit is beaten by anything that does, however slow.
    if (!trials_.fits(than)) return false;
    return !trials_.may_fit(choice) || trials_.bound_ns(choice) > trials_.of(than).period_ns;
  }

  void attempt(const PlanChoice& choice) {
    if (!best_ || is_better(choice, *best_)) best_ = choice;
  }

  /// In the order of their bounds, so that what is fast is known early; last what cannot fit.
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
      // One of each family is always there to see. Two-stage splits, devices x layers of them, are most of
      // the starts; the others are few and always tried.
      const bool is_seen = !seen_.insert(start.family).second;
      if (is_seen && start.family == PlanFamily::two_stages && is_ruled_out(start.choice, *best_)) {
        ++pruned_;
        return;
      }
      // Moves make more of the other half than further starts, which come in the order of their bounds.
      if (is_seen && trials_.actions() >= budget_.actions / 2) {
        ++left_out_;
        return;
      }
      trials_.with_memory(start.choice);  // which is shown
      attempt(start.choice);
      tried_.push_back(start);
    });
  }

  /// After settle(), so that what is printed of the best is what `simulate` says. Starts that no recurrence
  /// made have the period that its rule gives their stages.
  std::vector<PlanCandidate> candidates() {
    std::vector<PlanCandidate> found;
    for (const PlanStart& start : tried_) {
      const Trial& trial = trials_.of(start.choice);
      found.push_back(
          {.name = start.name,
           .predicted_ns = start.promised_ns ? *start.promised_ns : trials_.plan_of(start.choice).period_ns,
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

  /// In the order of the families, however fast they are.
  std::vector<PlanStart> best_of_families(const std::vector<PlanStart>& starts) {
    std::map<PlanFamily, const PlanStart*> best;
    for (const PlanStart& start : starts) {
      // Starts that were ruled out have not been simulated.
      if (trials_.known(start.choice) == nullptr) continue;
      const PlanStart*& of_family = best[start.family];
      if (of_family == nullptr || is_better(start.choice, of_family->choice)) of_family = &start;
    }
    std::vector<PlanStart> found;
    found.reserve(best.size());
    for (const auto& [family, start] : best) found.push_back(*start);
    return found;
  }

  /// The best of all, the best dozen, the best of each family; each once. A family may be
  /// behind as it starts and ahead when its cuts have moved, so that none is left out.
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

  /// All starts go a few moves, the better half of them twice as many, and so on: what will be best shows
  /// early, and no start is given up before it has moved. The others follow while simulations are left.
  void improve_all(std::vector<PlanChoice> front) {
    std::vector<PlanChoice> later;
    // Half of those that still move stay, with twice the simulations each: a round costs what the one before
    // did.
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

  /// What helps a start may help the best plan, too.
  void vary_best() {
    if (!best_) return;
    // Neither name nor family of it is ever shown.
    const PlanStart best{.family = PlanFamily::even, .name = "best", .choice = *best_};
    for (const PlanStart& variant : variants_of(best, task_)) {
      if (is_spent()) return;
      attempt(variant.choice);
      improved(variant.choice, budget_.simulations / kShareOfVariants);
    }
  }

  /// The first move that helps is taken, until none does (nothing then) or `share` simulations are made.
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
    // A place where no move helps is done with; one whose share ended may go on in the next round.
    if (is_spent() || (!moves && !is_over())) return std::nullopt;
    return current;
  }

  /// A short stream that shows no period only says about what a plan takes. Longer ones decide about the best
  /// of these, and those that `simulate` takes about the best of all.
  void settle() {
    settle(2, has_no_actions_left() ? 0 : kMostLonger);
    settle(kStreamAttempts, kMostSettled);
    // Three were settled and the best is a fourth that is only about known: the best known one is told.
    if (best_ && !is_known(*best_, kStreamAttempts))
      take_best([&](const PlanChoice& choice) { return is_known(choice, kStreamAttempts); });
  }

  /// Whether its period is exact, or a mean that streams of so many attempts of endless_stream() gave.
  bool is_known(const PlanChoice& choice, int attempts) {
    const Trial& trial = trials_.of(choice);
    return trial.is_exact || trial.attempts >= attempts;
  }

  /// Gives the best plan a longer stream until the best is one that has had it, `most` times at most: each
  /// that falls back by it lets another one come up.
  void settle(int attempts, int most) {
    for (int settled = 0; settled < most && best_ && !is_known(*best_, attempts); ++settled) {
      trials_.settled(*best_, attempts);
      take_best([](const PlanChoice&) { return true; });
    }
  }

  /// Anew over all trials, not against the old best: that may have become slower.
  template <class IsMeant>
  void take_best(const IsMeant& is_meant) {
    best_.reset();
    for (const PlanChoice& choice : trials_.tried_choices())
      if (is_meant(choice) && (!best_ || is_better(choice, *best_))) best_ = choice;
  }

  /// A recurrence may name the layer that is too large.
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
  std::set<PlanFamily> seen_;     // families with a start that was tried
  std::vector<PlanStart> tried_;  // in that order: what is printed
  std::optional<PlanChoice> best_;
  std::int64_t pruned_ = 0;
  std::int64_t left_out_ = 0;
};

}  // namespace

tl::expected<SearchedPlan, std::string> search_plan(const Scenario& scenario, const PlanOptions& options,
                                                    const PlanBudget& budget) {
  PlanOptions ranked = options;
  // Only where the recurrence's own figures are printed beside the simulated ones; plans are ranked without
  // it.
  ranked.objective = PlanObjective::maximum;
  const auto task = planning_task(scenario, ranked);
  if (!task) return tl::unexpected(task.error());
  // Layers that no plan can be made of are refused in the recurrence's words.
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
      // Asked for many plans at a time, each in a part of the simulations that one plan alone would get.
      return search_plan(scenario, options,
                         {.simulations = PlanBudget{}.simulations / 20, .actions = PlanBudget{}.actions / 20})
          .map([](SearchedPlan found) { return std::move(found.planned); });
    case PlanRanking::recurrence:
      break;
  }
  return plan_scenario(scenario, options);
}

}  // namespace penstock
