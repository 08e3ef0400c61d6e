// Compares the searches of the rules that use costs with plain_search.hpp. All lists are on a V. With 2
// ranks, stages 0 and 3 are on rank 0, and stages 1 and 2 are on rank 1.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/search/order_follower.hpp"
#include "schedules/search/timed_lists.hpp"
#include "tests/schedules/plain_search.hpp"

namespace penstock {
namespace {

constexpr Ns kNoLimit = std::numeric_limits<Ns>::max();

/// Draws random costs of stages on a V. Every duration is between `least` and `most`, and every rank has
/// memory for `activations` activations.
class RandomV {
 public:
  explicit RandomV(std::uint32_t seed) : random_(seed) {}

  std::int64_t from_to(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }

  OrderCosts costs(std::int32_t ranks, std::int32_t microbatches, Ns least, Ns most) {
    OrderCosts costs{
        .stages = {}, .transfer_ns = {}, .memory_limit = {}, .rank_of = {}, .microbatches = microbatches};
    for (std::int32_t stage = 0; stage < 2 * ranks; ++stage) {
      costs.stages.push_back({.forward_ns = from_to(least, most),
                              .backward_ns = from_to(least, 2 * most),
                              .backward_input_ns = from_to(least, most),
                              .backward_weight_ns = from_to(least, from_to(0, 1) == 0 ? most : 9 * most),
                              .kept = 2,
                              .released_by_input = from_to(0, 2)});
      costs.transfer_ns.push_back(from_to(0, most));
      costs.rank_of.push_back(std::min(stage, 2 * ranks - 1 - stage));
    }
    costs.transfer_ns.pop_back();
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      costs.memory_limit.push_back(2 * from_to(ranks + 2, 2 * ranks + 4));
    return costs;
  }

 private:
  std::mt19937 random_;
};

std::vector<std::string> text_of(const Lists& lists) {
  std::vector<std::string> texts;
  for (const std::vector<Action>& list : lists) {
    std::string& text = texts.emplace_back();
    for (const Action& action : list) text.append(to_text(action)).append(" ");
  }
  return texts;
}

/// Returns lists on a V that can run within the memory of `costs`, or nothing if there are none.
std::optional<Lists> runnable_lists(const OrderCosts& costs, ActionKind backward) {
  const auto ranks = static_cast<std::int32_t>(costs.memory_limit.size());
  return plain_follow(costs, repeated_block(v_half_block(ranks), costs.microbatches, backward), {});
}

void expect_times_of(const RetimedLists& lists, const OrderCosts& costs) {
  const PlainTimes times = *plain_times(lists.lists(), costs);
  EXPECT_EQ(lists.length().longest_span_ns, times.longest_span_ns);
  EXPECT_EQ(lists.length().sum_of_ends_ns, times.sum_of_ends_ns);
  for (std::int32_t rank = 0; rank < lists.rank_count(); ++rank) {
    std::size_t at = 0;
    for (auto number = lists.first(rank); number != RetimedLists::kNone; number = lists.next(number), ++at) {
      ASSERT_EQ(lists.end_ns(number), times.ends[index(rank)][at]) << "rank " << rank << " position " << at;
      ASSERT_EQ(lists.waits_for_rank(number), times.waits_for_rank[index(rank)][at])
          << to_text(lists.action(number));
    }
  }
}

/// Tries to move the action at `from` on the rank by `reach` positions to the front, with RetimedLists and
/// with plain_search.hpp.
void expect_move_as_plainly(RetimedLists& lists, const OrderCosts& costs, std::int32_t rank, std::size_t from,
                            std::size_t reach) {
  Lists moved = lists.lists();
  std::vector<Action>& list = moved[index(rank)];
  const auto place = [&](std::size_t at) { return list.begin() + static_cast<std::ptrdiff_t>(at); };
  std::rotate(place(from - reach), place(from), place(from + 1));
  auto action = lists.first(rank);
  for (std::size_t at = 0; at < from; ++at) action = lists.next(action);
  auto target = action;
  for (std::size_t step = 0; step < reach; ++step) target = lists.previous(target);
  const Action& passed = lists.action(target);
  const Action& mover = lists.action(action);
  const bool is_own = passed.stage == mover.stage && passed.microbatch == mover.microbatch;
  if (!lists.waits_for_rank(action) || is_own) return;
  ASSERT_EQ(lists.fits(action, target), plainly_fits(moved, costs));
  if (!lists.fits(action, target)) return;
  const auto before = plain_times(lists.lists(), costs);
  const auto after = plain_times(moved, costs);
  const bool is_shorter = after && after->is_shorter_than(*before);
  const Lists expected = is_shorter ? moved : lists.lists();
  ASSERT_EQ(lists.move_if_shorter(action, target), is_shorter) << to_text(lists.action(action));
  ASSERT_EQ(text_of(lists.lists()), text_of(expected));
}

TEST(WakeTimes, TheEarliestRankComesFirstAndTheLowestOnATie) {
  WakeTimes wakings(5);
  EXPECT_EQ(wakings.earliest().time_ns, WakeTimes::kNever);
  wakings.set(4, 7);
  wakings.set(2, 9);
  EXPECT_EQ(wakings.earliest().rank, 4);
  wakings.set(1, 7);
  EXPECT_EQ(wakings.earliest().rank, 1);
  wakings.set(1, WakeTimes::kNever);
  wakings.set(4, 10);
  EXPECT_EQ(wakings.earliest().rank, 2);
  EXPECT_EQ(wakings.earliest().time_ns, 9);
}

TEST(WakeTimes, OneRankIsATreeOfItsOwn) {
  WakeTimes wakings(1);
  wakings.set(0, 3);
  EXPECT_EQ(wakings.earliest().time_ns, 3);
  EXPECT_EQ(wakings.earliest().rank, 0);
}

TEST(RetimedLists, KnowWhatAMoveGains) {
  // rank 0   F0 F1 .  .  B0 B1       rank 0   F0 F1 .  .  B0 B1
  // rank 1      F0 F1 B0 B1          rank 1      F0 B0 F1 B1
  const StageCost even{.forward_ns = 1, .backward_ns = 1, .kept = 1};
  const OrderCosts costs{.stages = {even, even},
                         .transfer_ns = {0},
                         .memory_limit = {2, 2},
                         .rank_of = {0, 1},
                         .microbatches = 2};
  const auto action = [](ActionKind kind, std::int32_t stage, std::int32_t m) {
    return Action{.kind = kind, .stage = stage, .microbatch = m};
  };
  constexpr ActionKind kF = ActionKind::forward;
  constexpr ActionKind kB = ActionKind::backward;
  RetimedLists lists({{action(kF, 0, 0), action(kF, 0, 1), action(kB, 0, 0), action(kB, 0, 1)},
                      {action(kF, 1, 0), action(kF, 1, 1), action(kB, 1, 0), action(kB, 1, 1)}},
                     costs);
  EXPECT_EQ(lists.length(), (Length{.longest_span_ns = 6, .sum_of_ends_ns = 1 + 2 + 5 + 6 + 2 + 3 + 4 + 5}));
  const auto backward_0 = lists.next(lists.next(lists.first(1)));
  EXPECT_TRUE(lists.waits_for_rank(backward_0));
  EXPECT_TRUE(lists.move_if_shorter(backward_0, lists.previous(backward_0)));
  EXPECT_EQ(lists.length(), (Length{.longest_span_ns = 6, .sum_of_ends_ns = 1 + 2 + 4 + 6 + 2 + 3 + 4 + 5}));
  EXPECT_THAT(text_of(lists.lists()), testing::ElementsAre("0F0 0F1 0B0 0B1 ", "1F0 1B0 1F1 1B1 "));
}

TEST(RetimedLists, FollowRandomMovesAsTimingAllAnewDoes) {
  RandomV random(3);
  for (int trial = 0; trial < 600; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    const auto ranks = static_cast<std::int32_t>(random.from_to(1, 5));
    const OrderCosts costs = random.costs(ranks, static_cast<std::int32_t>(random.from_to(1, 7)), 1, 9);
    const auto start =
        runnable_lists(costs, trial % 2 == 0 ? ActionKind::backward : ActionKind::backward_input);
    if (!start) continue;
    RetimedLists lists(*start, costs);
    expect_times_of(lists, costs);
    for (int move = 0; move < 40; ++move) {
      const auto rank = static_cast<std::int32_t>(random.from_to(0, ranks - 1));
      const auto last = static_cast<std::int64_t>((*start)[index(rank)].size()) - 1;
      const auto from = index(random.from_to(1, move % 2 == 0 ? std::min<std::int64_t>(last, 2) : last));
      const auto reach = std::min(from, index(random.from_to(1, 2)));
      expect_move_as_plainly(lists, costs, rank, from, reach);
      if (HasFatalFailure()) return;
    }
    expect_times_of(lists, costs);
  }
}

TEST(Squeeze, MakesTheListsThatTimingAllAnewMakes) {
  RandomV random(4);
  for (int trial = 0; trial < 120; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    const auto ranks = static_cast<std::int32_t>(random.from_to(1, 4));
    const Ns least = trial % 3 == 0 ? 0 : 1;
    const OrderCosts costs = random.costs(ranks, static_cast<std::int32_t>(random.from_to(1, 5)), least, 6);
    const auto lists =
        runnable_lists(costs, trial % 2 == 0 ? ActionKind::backward : ActionKind::backward_input);
    if (!lists) continue;
    EXPECT_EQ(text_of(squeeze(*lists, costs)), text_of(plain_squeeze(*lists, costs)));
  }
}

// All variants for which OrderFollower reports the same lists must give the same lists, and these must be the
// lists of plain_search.hpp.
TEST(OrderFollower, ComesToTheListsOfEveryWay) {
  RandomV random(5);
  for (int trial = 0; trial < 60; ++trial) {
    const auto ranks = static_cast<std::int32_t>(random.from_to(1, 5));
    const OrderCosts costs =
        random.costs(ranks, static_cast<std::int32_t>(random.from_to(1, 9)), trial % 4 == 0 ? 0 : 1, 8);
    const PreferredOrder order =
        repeated_block(v_half_block(ranks), costs.microbatches, ActionKind::backward_input);
    OrderFollower follower(costs, order);
    std::vector<FollowOptions> ways = options_with_weights();
    for (std::size_t way = 0; way < ways.size(); ++way) {
      SCOPED_TRACE(testing::Message() << "trial " << trial << " way " << way);
      const auto plain = plain_follow(costs, order, ways[way]);
      const auto span = follower.run({ways[way]}, kNoLimit);
      ASSERT_EQ(span.has_value(), plain.has_value());
      if (!span) continue;
      ASSERT_EQ(text_of(follower.lists()), text_of(*plain));
    }
    while (!ways.empty()) {
      const auto span = follower.run(ways, kNoLimit);
      const std::vector<FollowOptions> others = follower.other_variants();
      for (const FollowOptions& way : ways) {
        if (std::ranges::find(others, way) != others.end()) continue;
        const auto plain = plain_follow(costs, order, way);
        ASSERT_EQ(span.has_value(), plain.has_value());
        if (!span) continue;
        ASSERT_EQ(text_of(follower.lists()), text_of(*plain));
      }
      ways = others;
    }
  }
}

// Long orders, in which ranks repeat themselves. The jumps over repetitions must not change the lists. The
// pauses between ranks decide about a W in some of these variants, and the memory limits in others.
TEST(OrderFollower, JumpsOverRepeatedMicrobatches) {
  RandomV random(9);
  int jumped = 0;
  int walked = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const auto ranks = static_cast<std::int32_t>(random.from_to(1, 4));
    const auto microbatches = static_cast<std::int32_t>(random.from_to(30, 90));
    const OrderCosts costs =
        random.costs(ranks, microbatches, trial % 4 == 0 ? 0 : 1, trial % 2 == 0 ? 3 : 9);
    const bool is_half = random.from_to(0, 1) == 0;
    const PreferredOrder order = repeated_block(is_half ? v_half_block(ranks) : v_min_block(ranks),
                                                microbatches, ActionKind::backward_input);
    OrderFollower follower(costs, order);
    for (std::vector<FollowOptions> ways = options_with_weights(); !ways.empty();
         ways = follower.other_variants()) {
      SCOPED_TRACE(testing::Message() << "trial " << trial << ", " << ways.size() << " variants");
      const auto span = follower.run(ways, kNoLimit);
      (follower.skipped_microbatches() > 0 ? jumped : walked) += 1;
      const std::vector<FollowOptions> others = follower.other_variants();
      for (const FollowOptions& way : ways) {
        if (std::ranges::find(others, way) != others.end()) continue;
        const auto plain = plain_follow(costs, order, way);
        ASSERT_EQ(span.has_value(), plain.has_value());
        if (!span) continue;
        ASSERT_EQ(*span, plain_times(*plain, costs)->longest_span_ns);
        ASSERT_EQ(text_of(follower.lists()), text_of(*plain));
      }
    }
  }
  EXPECT_GT(jumped, 100);
  EXPECT_GT(walked, 20);
}

// The search stops at a variant in which the busiest rank never pauses. Its answer must be that of all
// variants and of squeeze(), for equal stages (which often have such a variant) and for random ones.
TEST(BestFollowed, GivesTheSqueezedListsOfTheFirstShortestVariant) {
  RandomV random(8);
  int without_pause = 0;
  for (int trial = 0; trial < 120; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    const auto ranks = static_cast<std::int32_t>(random.from_to(1, 4));
    const Ns most = trial % 2 == 0 ? 1 : 4;
    const OrderCosts costs = random.costs(ranks, static_cast<std::int32_t>(random.from_to(1, 9)), 1, most);
    const PreferredOrder order =
        repeated_block(v_half_block(ranks), costs.microbatches, ActionKind::backward_input);
    std::optional<Lists> best;
    Ns shortest = kNoLimit;
    for (const FollowOptions& way : options_with_weights()) {
      auto plain = plain_follow(costs, order, way);
      if (!plain) continue;
      const Ns span = plain_times(*plain, costs)->longest_span_ns;
      if (span >= shortest) continue;
      shortest = span;
      best = std::move(plain);
    }
    if (best) best = plain_squeeze(*best, costs);
    without_pause += shortest == OrderFollower(costs, order).busiest_ns() ? 1 : 0;
    const auto found =
        best_followed(costs, {{.order = order, .options = options_with_weights()}}, kNoLimit - 1);
    ASSERT_EQ(found.has_value(), best.has_value());
    if (!found) continue;
    EXPECT_EQ(text_of(*found), text_of(*best));
  }
  EXPECT_GT(without_pause, 10);
}

/// Returns options that differ only in the warm-up.
std::vector<FollowOptions> warm_ups(std::int32_t most) {
  std::vector<FollowOptions> ways;
  for (std::int32_t ahead = 0; ahead <= most; ++ahead) ways.push_back({.warm_up_look_ahead = ahead});
  return ways;
}

TEST(OrderFollower, KnowsTheSpanOfAnOrderThatNoLongerBends) {
  RandomV random(6);
  int known_early = 0;
  for (int trial = 0; trial < 120; ++trial) {
    const auto ranks = static_cast<std::int32_t>(random.from_to(1, 5));
    const OrderCosts costs =
        random.costs(ranks, static_cast<std::int32_t>(random.from_to(1, 12)), trial % 4 == 0 ? 0 : 1, 8);
    const PreferredOrder order =
        repeated_block(v_half_block(ranks), costs.microbatches, ActionKind::backward);
    OrderFollower follower(costs, order);
    for (std::vector<FollowOptions> ways = warm_ups(ranks + 2); !ways.empty();
         ways = follower.other_variants()) {
      SCOPED_TRACE(testing::Message() << "trial " << trial << " ahead " << ways.front().warm_up_look_ahead);
      const auto plain = plain_follow(costs, order, ways.front());
      const auto span = follower.run(ways, kNoLimit);
      ASSERT_EQ(span.has_value(), plain.has_value());
      if (!span) continue;
      known_early += follower.has_finished() ? 0 : 1;
      EXPECT_EQ(*span, plain_times(*plain, costs)->longest_span_ns);
      EXPECT_EQ(text_of(follower.lists()), text_of(*plain));
    }
  }
  EXPECT_GT(known_early, 100);
}

TEST(OrderFollower, GivesUpWhatDoesNotComeBelowTheLimit) {
  RandomV random(7);
  const OrderCosts costs = random.costs(3, 6, 1, 9);
  OrderFollower follower(costs, repeated_block(v_half_block(3), 6, ActionKind::backward_input));
  const std::vector<FollowOptions> ways = options_with_weights();
  const Ns span = *follower.run(ways, kNoLimit);
  EXPECT_EQ(follower.run(ways, span), std::nullopt);
  EXPECT_EQ(follower.run(ways, span + 1), span);
}

// One rank has two stages. F0 of both stages and their Bs take 1 + 1 + 2 + 2. The tail of the first action in
// the list is the time to the end of the list.
TEST(OrderTails, CountFromTheStartOfAnActionToTheLastEnd) {
  const StageCost cost{.forward_ns = 1, .backward_ns = 2, .kept = 1};
  const OrderCosts costs{
      .stages = {cost, cost}, .transfer_ns = {5}, .memory_limit = {2}, .rank_of = {0, 0}, .microbatches = 1};
  const OrderSteps steps(costs, repeated_block(v_half_block(1), 1, ActionKind::backward));
  const OrderTails tails(steps, {0});
  ASSERT_EQ(steps.ranks[0].size(), 4U);
  std::vector<Ns> after;
  for (const Step& step : steps.ranks[0]) after.push_back(tails.after(step.place));
  EXPECT_THAT(after, testing::ElementsAre(6, 5, 4, 2));
}

}  // namespace
}  // namespace penstock
