// Finds the shortest order with several searches. Searches from different seeds stop improving at orders
// of different lengths, which cannot be predicted. Therefore they compete in brackets. Eight new searches
// make a few passes each; a pass builds one order. The better half continues with twice as many passes,
// and so on, until one search remains. It then competes with the best search of earlier brackets (the
// champion). Each bracket makes twice as many passes as the previous one, for any effort. A larger effort
// therefore runs the same searches as a smaller one and then continues.
//
//   bracket   8 x n   4 x 2n   2 x 4n   1 x 8n   champion and challenger: n = 4, 8, 16, ... passes
//
// A search uses all memory within its limit. Therefore the program finally looks for an equally long order
// with less memory. A bisection searches between the memory of one microbatch and the memory of the best
// order. Tested by synthesis_test.cpp.

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
#include "schedules/ir/digest.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/order_builder.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

namespace {

using Lists = std::vector<std::vector<Action>>;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kSearches = 8;
constexpr std::int64_t kFirstPasses = 4;
constexpr std::int64_t kSlice = 8;  // passes between two readings of the clock
// The search for a named schedule stops after this number of placed actions, unless the user states the
// number of passes. In 40 larger searches (v-half and v-min, up to 32 ranks and 256 microbatches) the limit
// made one makespan 0.5 % longer.
constexpr std::int64_t kMostPlaced = std::int64_t{1} << 21;

/// The competing searches. A bracket is a group of new searches, of which the best one remains. The first
/// search is the champion: the best one of all earlier brackets. `spent_` counts the actions that all
/// searches have placed, including searches that were removed.
class Tournament {
 public:
  Tournament(const OrderCosts& costs, Objective objective, const SearchEffort& effort, Ns bound)
      : costs_(costs), objective_(objective), effort_(effort), bound_(bound), end_(Clock::now()) {
    end_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(effort.budget_seconds));
    // First, rules that aim at the bound and rules of the table are tried. If they reach the bound, no search
    // is necessary.
    add_search();
    actions_of_a_pass_ = searches_.front().actions_of_a_pass();
    start_from(rules_aimed_at(bound, costs));
    start_from(starting_rules(costs));
  }

  void run() {
    for (std::int64_t passes = kFirstPasses; !is_over(); passes *= 2) run_bracket(passes);
  }
  /// Returns the number of passes of all searches together. A pass places all actions of one order, and an
  /// incomplete pass counts as one.
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
    // The clock is read only if there is a time budget. Otherwise the result must not depend on time.
    if (spent_ >= effort_.passes * actions_of_a_pass_ || best().is_optimal()) return true;
    return effort_.budget_seconds > 0 && Clock::now() >= end_;
  }

  void add_search() {
    // The seed is hashed, so that the searches of seed 2 differ from those of seed 1.
    searches_.emplace_back(costs_, objective_, mixed(effort_.seed) + next_seed_++, bound_);
  }

  /// Runs a bracket of new searches. The search that remains competes with the champion, which is the first
  /// search.
  void run_bracket(std::int64_t passes) {
    // Each bracket's searches have new seeds. The champion stays first and is not sorted with the others.
    while (searches_.size() <= kSearches) add_search();
    for (std::size_t left = kSearches; left > 0 && !is_over(); left /= 2, passes *= 2) {
      for (std::size_t number = 1; number <= left && !is_over(); ++number) go_on(searches_[number], passes);
      std::stable_sort(searches_.begin() + 1, searches_.end(), [](const RuleSearch& a, const RuleSearch& b) {
        return a.best().length < b.best().length;
      });
      searches_.erase(searches_.begin() + 1 + static_cast<std::ptrdiff_t>(std::max<std::size_t>(1, left / 2)),
                      searches_.end());
    }
    // The champion gets as many passes as the last search of the bracket. The loop has already doubled
    // `passes` again, so half of it is the right number.
    if (!is_over()) go_on(searches_.front(), passes / 2);
    std::ranges::stable_sort(searches_, {}, length_of_search);
    searches_.erase(searches_.begin() + 1, searches_.end());
  }

  /// Continues a search in small parts. Between two parts it reads the clock, so that the search ends in
  /// time.
  void go_on(RuleSearch& search, std::int64_t passes) {
    const std::int64_t before = search.placed_actions();
    // The search counts only its own actions, but `spent_` counts the actions of all searches.
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

/// The values by which orders are compared, the most important first.
struct Merit {
  Ns length = RatedRules::kUnknownLength;
  /// The peak memory of the rank that needs most, in bytes.
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

/// The best of all orders that the caller has passed to offer().
class BestOrder {
 public:
  BestOrder(const OrderCosts& costs, Objective objective) : costs_(costs), objective_(objective) {}

  void offer(Lists lists) {
    const Merit merit = merit_of(lists, costs_, objective_);
    if (merit >= merit_) return;
    merit_ = merit;
    lists_ = std::move(lists);
  }
  /// Considers an order that is no shorter than the best one. It can then be better only by a lower peak
  /// memory. The function computes its length only if its peak is lower.
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

/// Builds an order with each set of rules in `starts`, within the memory limits of `costs`, and offers it to
/// `best`.
void offer_built(BestOrder& best, const OrderCosts& costs, Objective objective,
                 const std::vector<OrderRules>& starts) {
  OrderBuilder builder(costs, objective, costs.microbatches);
  for (const OrderRules& rules : starts) {
    if (builder.run(rules, best.merit().length)) best.offer(builder.lists());
  }
}

/// Searches for orders that are as short as the best one but need less and less memory. `champion` holds the
/// rules of the best search.
void lower_memory(BestOrder& best, const OrderCosts& costs, Objective objective, const KnownOrders& known,
                  const std::vector<OrderRules>& champion) {
  constexpr Bytes kMostParts = 1024;  // limits the number of steps if one stage stores very little
  Bytes least_kept = std::numeric_limits<Bytes>::max();
  for (const StageCost& stage : costs.stages) least_kept = std::min(least_kept, stage.kept);
  const Bytes step = std::max({Bytes{1}, least_kept, best.merit().peak / kMostParts});
  Bytes too_little = most_kept_by_one_microbatch(costs) - 1;
  while (best.merit().peak - too_little > 1) {
    // Limits differ by at least one whole activation. A limit between two numbers of activations has the same
    // effect as the limit for the lower number.
    const Bytes parts = (best.merit().peak - too_little - 1 + step - 1) / step;
    const Bytes most = std::min(too_little + (parts + 1) / 2 * step, best.merit().peak - 1);
    const OrderCosts smaller = within(costs, most);
    for (Lists& lists : known(smaller, best.merit().length)) best.offer_smaller(std::move(lists));
    if (best.merit().peak > most) offer_built(best, smaller, objective, champion);
    if (best.merit().peak > most) too_little = most;
  }
}

/// Returns the effort that the shape states for the search. If the user does not set the number of passes,
/// the passes together place at most kMostPlaced actions.
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
    // squeeze() shortens spans. If the objective is the makespan, the squeezed lists are accepted only if
    // their makespan is also shorter.
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
  // Without a pass, there is no other order to compare with, so the length is not needed.
  if (!shape.costs || shape.effort.passes == 0) {
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
//   If M microbatches do not fit into memory, the last F comes after the first I, and the rank is idle during
//   both times. Otherwise it may be idle only during the longer of the two.
//
//   room   A microbatch stores `kept` bytes from F to the end of I. This time is at least the path from the
//          stage to the last stage and back. It stores `kept` - `released` bytes until the end of W. The sum
//          of bytes x time is at most limit x span.
//
// The span of a rank is at least its work plus head plus tail, and at least room. The makespan also contains
// the time until the first microbatch reaches the rank. If chunks differ, each term uses the chunk with the
// lowest bound. Tested by synthesis_test.cpp, against all orders of small cases.

namespace {

constexpr std::int64_t kAnyCount = std::numeric_limits<std::int32_t>::max();

/// Returns the number of items of `size` bytes that fit into `room`. Returns 0 if `room` is negative.
std::int64_t fitting(Bytes room, Bytes size) {
  if (room < 0) return 0;
  return size <= 0 ? kAnyCount : std::min(kAnyCount, room / size);
}

/// The times of a microbatch that never waits for other microbatches. They give lower bounds on the times
/// in any order.
class FreePath {
 public:
  explicit FreePath(const OrderCosts& costs) : costs_(costs) {}

  /// Returns the time from the start of F on the first stage to the start of F on `stage`.
  Ns to(std::size_t stage) const { return forward(0, stage); }
  /// Returns the time that a microbatch takes from the end of its F on stage `from`, through the last stage,
  /// to the start of its I on stage `to`.
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

/// The work and the memory of all chunks of a rank. If the chunks differ in a value, the value that gives
/// the lowest bound is taken. A bound may be too low but never too high.
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
  /// Returns the number of F actions whose activations fit into the rank's memory together.
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

/// Returns a lower bound on the idle time before the rank's first I. The comment above calls it `head`.
Ns head(const OrderCosts& costs, const RankWork& rank) {
  const Ns path = FreePath(costs).around(rank.stages.front(), rank.stages.back());
  // The path begins at the end of the first F, so this F does not count.
  return std::max<Ns>(0, path - (rank.fitting_forwards() - 1) * rank.longest_forward);
}

/// Returns the longest total time of I and W actions whose microbatches fit into `room` bytes together. The
/// function counts at most `units` microbatches of a stage.
Ns most_backward_work(const RankWork& rank, Bytes room, std::int64_t units) {
  Ns most = 0;
  // Some microbatches in `room` still need I and W, and the others need only W. The loop tries all numbers of
  // microbatches that need both, because either kind may give more work.
  for (std::int64_t whole = std::min(units, fitting(room, rank.least_kept)); whole >= 0; --whole) {
    const std::int64_t owed =
        std::min(units - whole, fitting(room - whole * rank.least_kept, rank.least_owed));
    most = std::max(most, whole * rank.longest_backward + owed * rank.longest_weight);
  }
  return most;
}

/// Returns a lower bound on the idle time after the rank's last F. The comment above calls it `tail`.
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

/// Returns a lower bound on the span of the rank that follows from its memory. In a shorter span, `limit`
/// bytes would not be enough for all microbatches.
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
  // The value must not be rounded up, because it would then be no lower bound.
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
