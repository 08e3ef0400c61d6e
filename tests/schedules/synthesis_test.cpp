// Compares the search for orders with plain timing (plain_search.hpp), and its bound with an exhaustive
// search, shorter_order(). The exhaustive search adds actions in the order of their starts, and by rank if
// starts are equal, so that it builds each order once. A rank is idle at least until the last start so far.
// If this idle time plus the rank's work reaches `length`, no order with this beginning is shorter.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/order_builder.hpp"
#include "schedules/search/synthesis.hpp"
#include "schedules/search/timed_lists.hpp"
#include "tests/schedules/plain_search.hpp"

namespace penstock {

enum class ShorterOrder : std::uint8_t { exists, impossible, unknown };

/// Tries all orders of F, I and W that stay within memory. Each action starts as early as it can. Returns
/// `unknown` after `steps` steps. All microbatches are equal, so the microbatches of a stage run in ascending
/// order.
ShorterOrder shorter_order(const OrderCosts& costs, Objective objective, Ns length, std::int64_t steps);

namespace {

constexpr std::array kKindsOfOrder = {ActionKind::forward, ActionKind::backward_input,
                                      ActionKind::backward_weight};

struct Rank {
  Ns first_start = -1;
  Ns free_at = 0;
  Ns work_left = 0;
  Bytes kept = 0;
};

/// A depth-first search. It starts each action that may come next. If this leads to no shorter order, it
/// removes the action again.
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

  /// Returns the time at which the next action of this kind may start on its stage, or -1 if the time is not
  /// known.
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

  /// Returns true if some rank cannot be shorter than `length` any more. Requires that no further action
  /// starts before `now`.
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

  /// Starts the next action of the stage and kind as early as it can. Does nothing if that is before the last
  /// start, because the order with both actions exchanged has been tried already.
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

// Compares the order that one pass builds with plain timing, and the bound with an exhaustive search. Also
// tests what synthesize() promises.

namespace {

constexpr Ns kUnbounded = std::numeric_limits<Ns>::max() / 2;

/// The placement of chunks: one chunk on a rank, a V, or interleaved.
enum class Lie : std::uint8_t { one_chunk, v, interleaved };

std::int32_t rank_of(Lie lie, std::int32_t stage, std::int32_t ranks) {
  return lie == Lie::v ? std::min(stage, 2 * ranks - 1 - stage) : stage % ranks;
}

class RandomCosts {
 public:
  explicit RandomCosts(std::uint32_t seed) : random_(seed) {}

  std::int64_t from_to(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }

  /// Draws costs. Every rank has memory for one microbatch and up to `more` further bytes.
  OrderCosts draw(Lie lie, std::int32_t ranks, std::int32_t microbatches, Bytes more) {
    OrderCosts costs{
        .stages = {}, .transfer_ns = {}, .memory_limit = {}, .rank_of = {}, .microbatches = microbatches};
    const std::int32_t chunks = lie == Lie::one_chunk ? 1 : lie == Lie::v ? 2 : 3;
    costs.memory_limit.assign(index(ranks), 0);
    for (std::int32_t stage = 0; stage < chunks * ranks; ++stage) {
      costs.stages.push_back({.forward_ns = from_to(1, 9),
                              .backward_input_ns = from_to(1, 9),
                              .backward_weight_ns = from_to(0, 9),
                              .kept = from_to(1, 4)});
      costs.stages.back().released_by_input = from_to(0, costs.stages.back().kept);
      costs.transfer_ns.push_back(from_to(0, 5));
      costs.rank_of.push_back(rank_of(lie, stage, ranks));
      costs.memory_limit[index(costs.rank_of.back())] += costs.stages.back().kept;
    }
    costs.transfer_ns.pop_back();
    for (Bytes& limit : costs.memory_limit) limit += from_to(0, more);
    return costs;
  }

 private:
  std::mt19937 random_;
};

/// Returns lists in which each microbatch runs after the previous one.
Lists one_after_the_other(const OrderCosts& costs) {
  Lists lists(costs.memory_limit.size());
  const auto put = [&](ActionKind kind, std::int32_t stage, std::int32_t m) {
    lists[index(costs.rank_of[index(stage)])].push_back({.kind = kind, .stage = stage, .microbatch = m});
  };
  const auto stages = static_cast<std::int32_t>(costs.stages.size());
  for (std::int32_t m = 0; m < costs.microbatches; ++m) {
    for (std::int32_t stage = 0; stage < stages; ++stage) put(ActionKind::forward, stage, m);
    for (std::int32_t stage = stages - 1; stage >= 0; --stage) {
      put(ActionKind::backward_input, stage, m);
      put(ActionKind::backward_weight, stage, m);
    }
  }
  return lists;
}

Synthesis synthesized_from_nothing(const OrderCosts& costs, Objective objective, const SearchEffort& effort) {
  return synthesize(costs, objective, effort, [](const OrderCosts& within, Ns /*longest*/) {
    return std::vector<Lists>{one_after_the_other(within)};
  });
}

/// Returns costs of equal stages. An activation takes 2 bytes, and I releases one of them.
OrderCosts even_costs(Lie lie, std::int32_t ranks, std::int32_t microbatches, Bytes limit) {
  OrderCosts costs{.stages = {},
                   .transfer_ns = {},
                   .memory_limit = std::vector<Bytes>(index(ranks), limit),
                   .rank_of = {},
                   .microbatches = microbatches};
  const std::int32_t stages = lie == Lie::one_chunk ? ranks : 2 * ranks;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    costs.stages.push_back({.forward_ns = 100,
                            .backward_input_ns = 105,
                            .backward_weight_ns = 75,
                            .kept = 2,
                            .released_by_input = 1});
    costs.transfer_ns.push_back(9);
    costs.rank_of.push_back(rank_of(lie, stage, ranks));
  }
  costs.transfer_ns.pop_back();
  return costs;
}

constexpr std::array kLies = {Lie::one_chunk, Lie::v, Lie::interleaved};

// A rank may wait for an action that it does not run in the end. The order can therefore be shorter than the
// pass that built it, but never longer.
TEST(OrderBuilder, BuildsOrdersThatRunInItsTimeAndMemory) {
  RandomCosts random(5);
  Draws draws(5);
  int built = 0;
  int exact = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    const Lie lie = kLies[index(trial % 3)];
    const auto ranks = static_cast<std::int32_t>(random.from_to(1, 5));
    const OrderCosts costs = random.draw(lie, ranks, static_cast<std::int32_t>(random.from_to(1, 8)), 30);
    OrderBuilder builder(costs, Objective::span, costs.microbatches);
    const OrderRules rules = fresh_rules(
        draws, {.ranks = ranks, .chunks = lie == Lie::one_chunk ? 1 : 2, .units = 8, .idle_ns = 40});
    const auto span = builder.run(rules, kUnbounded);
    if (!span) continue;
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    const auto times = plain_times(builder.lists(), costs);
    ASSERT_TRUE(times);
    EXPECT_LE(times->longest_span_ns, *span);
    EXPECT_TRUE(plainly_fits(builder.lists(), costs));
    EXPECT_FALSE(builder.run(rules, *span - 1)) << "a limit below what it takes";
    EXPECT_EQ(builder.run(rules, *span), span) << "runs leave nothing behind";
    ++built;
    exact += times->longest_span_ns == *span ? 1 : 0;
  }
  EXPECT_GT(built, 700);
  EXPECT_GT(exact, built * 9 / 10);
}

TEST(OrderBuilder, SaysWhereRanksLockEachOtherOut) {
  // The first chunk fills the memory of both ranks, and the second chunk has no memory.
  const OrderCosts costs = even_costs(Lie::v, 2, 4, 4);
  OrderBuilder builder(costs, Objective::span, 4);
  OrderRules greedy;
  greedy.reserve = 0;
  greedy.forward_choice = ChunkChoice::first_first;
  EXPECT_FALSE(builder.run(greedy, kUnbounded));
  greedy.reserve = 1;
  EXPECT_TRUE(builder.run(greedy, kUnbounded));
}

TEST(OrderBuilder, CountsLateStartsInTheMakespanAlone) {
  const OrderCosts costs = even_costs(Lie::one_chunk, 2, 1, 2);
  // rank 0  F--.........I-W    100, 9, 100 + 105, 9, 105 + 75
  // rank 1     .F-I-W
  EXPECT_EQ(OrderBuilder(costs, Objective::span, 1).run({}, kUnbounded), 100 + 9 + 100 + 105 + 9 + 105 + 75);
  OrderCosts slow = costs;
  slow.stages[1].backward_weight_ns = 1000;
  EXPECT_EQ(OrderBuilder(slow, Objective::span, 1).run({}, kUnbounded), 100 + 105 + 1000);
  EXPECT_EQ(OrderBuilder(slow, Objective::makespan, 1).run({}, kUnbounded), 109 + 100 + 105 + 1000);
}

TEST(OrderBound, IsNeverAboveTheShortestOrder) {
  RandomCosts random(11);
  int proven = 0;
  for (int trial = 0; trial < 240; ++trial) {
    const Lie lie = trial % 3 == 2 ? Lie::v : Lie::one_chunk;
    const auto ranks = static_cast<std::int32_t>(random.from_to(1, lie == Lie::v ? 2 : 3));
    const auto microbatches = static_cast<std::int32_t>(random.from_to(1, lie == Lie::v ? 3 : 4));
    const OrderCosts costs = random.draw(lie, ranks, microbatches, 6);
    for (const Objective objective : {Objective::span, Objective::makespan}) {
      SCOPED_TRACE(testing::Message() << "trial " << trial << " ranks " << ranks << " M " << microbatches);
      const Ns bound = shortest_possible(costs, objective);
      const ShorterOrder found = shorter_order(costs, objective, bound, 200'000);
      EXPECT_NE(found, ShorterOrder::exists);
      proven += found == ShorterOrder::impossible ? 1 : 0;
    }
  }
  EXPECT_GT(proven, 400);
}

// The search that proves that no shorter order exists must itself find the orders that exist.
TEST(OrderBound, IsHeldAgainstASearchThatFindsWhatTheOtherOneFinds) {
  RandomCosts random(12);
  for (int trial = 0; trial < 60; ++trial) {
    const Lie lie = trial % 3 == 2 ? Lie::v : Lie::one_chunk;
    const OrderCosts costs = random.draw(lie, 2, 2, 6);
    const Synthesis found = synthesized_from_nothing(costs, Objective::span, {.passes = 50});
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    EXPECT_EQ(shorter_order(costs, Objective::span, found.length_ns + 1, 2'000'000), ShorterOrder::exists);
  }
}

TEST(OrderBound, IsMetWhereAnOrderIsSaidToBeOptimal) {
  // There is memory for all microbatches, so each rank can work without a pause.
  const Synthesis found =
      synthesized_from_nothing(even_costs(Lie::one_chunk, 4, 16, 32), Objective::span, {.passes = 2000});
  EXPECT_TRUE(found.is_optimal());
  EXPECT_EQ(found.length_ns, 16 * (100 + 105 + 75));
}

// Rank 0 has memory for 64 microbatches. Its first I can start only after the time of 64 F plus half of the
// work of a microbatch. So the rank must pause for this half, and it need not pause again for any number of
// microbatches.
TEST(Synthesis, PausesOnceWhereTheWayThereAndBackIsALittleLongerThanMemoryLasts) {
  for (const std::int32_t microbatches : {96, 128, 256}) {
    OrderCosts costs = even_costs(Lie::one_chunk, 32, microbatches, 0);
    for (StageCost& stage : costs.stages) {
      stage.forward_ns = 10'402;
      stage.backward_input_ns = 10'248;
      stage.backward_weight_ns = 7'698;
    }
    costs.transfer_ns.assign(31, 460);
    costs.memory_limit.assign(32, 64 * costs.stages.front().kept);
    const Synthesis found = synthesized_from_nothing(costs, Objective::span, {.passes = 30});
    EXPECT_TRUE(found.is_optimal()) << microbatches;
    EXPECT_EQ(found.length_ns, microbatches * 28'348 + 31 * (10'402 + 10'248 + 2 * 460) - 63 * 10'402);
  }
}

TEST(Synthesis, IsNeverLongerThanWhatIsKnownAndRunsInMemory) {
  RandomCosts random(21);
  for (int trial = 0; trial < 90; ++trial) {
    const Lie lie = kLies[index(trial % 3)];
    const auto ranks = static_cast<std::int32_t>(random.from_to(1, 4));
    const OrderCosts costs = random.draw(lie, ranks, static_cast<std::int32_t>(random.from_to(1, 6)), 20);
    for (const Objective objective : {Objective::span, Objective::makespan}) {
      SCOPED_TRACE(testing::Message() << "trial " << trial);
      const Synthesis found = synthesized_from_nothing(costs, objective, {.passes = 30});
      EXPECT_LE(found.length_ns, length_of(one_after_the_other(costs), costs, objective));
      EXPECT_EQ(found.length_ns, length_of(found.lists, costs, objective));
      EXPECT_GE(found.length_ns, found.bound_ns);
      EXPECT_TRUE(plainly_fits(found.lists, costs));
      if (objective == Objective::makespan) continue;
      EXPECT_EQ(plain_times(found.lists, costs)->longest_span_ns, found.length_ns);
    }
  }
}

TEST(Synthesis, IsTheSameForTheSameEffortAndSeed) {
  const OrderCosts costs = even_costs(Lie::v, 4, 12, 12);
  const Synthesis once = synthesized_from_nothing(costs, Objective::span, {.passes = 60, .seed = 3});
  const Synthesis again = synthesized_from_nothing(costs, Objective::span, {.passes = 60, .seed = 3});
  EXPECT_EQ(once.lists, again.lists);
  EXPECT_EQ(once.passes, again.passes);
}

TEST(Synthesis, GoesFurtherWithMorePasses) {
  const OrderCosts costs = even_costs(Lie::v, 6, 18, 14);
  Ns before = kUnbounded;
  for (const std::int64_t passes : {0, 10, 40, 160, 640}) {
    const Synthesis found = synthesized_from_nothing(costs, Objective::span, {.passes = passes});
    EXPECT_LE(found.length_ns, before) << passes;
    EXPECT_LE(found.passes, passes + 2) << "the last rules are tried to their end";
    before = found.length_ns;
  }
}

TEST(Synthesis, IsNoLongerInMoreMemory) {
  for (const Lie lie : {Lie::one_chunk, Lie::v}) {
    Ns before = kUnbounded;
    for (Bytes limit = 8; limit <= 32; limit += 2) {
      const OrderCosts costs = even_costs(lie, 4, 16, lie == Lie::v ? 2 * limit : limit);
      const Synthesis found = synthesized_from_nothing(costs, Objective::span, {.passes = 400});
      EXPECT_LE(found.length_ns, before) << limit;
      before = found.length_ns;
    }
  }
}

TEST(StartingRules, InAShareOfTheMemoryBuildWhatTheyBuildInASmallerLimit) {
  for (const Lie lie : {Lie::one_chunk, Lie::v}) {
    const OrderCosts large = even_costs(lie, 8, 24, 64);
    const OrderCosts small = even_costs(lie, 8, 24, 32);
    OrderBuilder in_share(large, Objective::span, 24);
    OrderBuilder in_all(small, Objective::span, 24);
    int built = 0;
    for (OrderRules rules : starting_rules(small)) {
      rules.memory_share = 1;
      const auto span = in_all.run(rules, kUnbounded);
      rules.memory_share = 0.5;
      EXPECT_EQ(in_share.run(rules, kUnbounded), span);
      built += span ? 1 : 0;
    }
    EXPECT_GT(built, 0);
  }
}

}  // namespace
}  // namespace penstock
