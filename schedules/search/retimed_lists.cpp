// Updates the times of lists after an action has moved, without computing all times again. A local search
// tries millions of moves, and most moves change only a few times. The giver of an action is the action that
// sends its input. An action ends at
//
//   end = max(end of the action before it on its rank, end of its giver + delay) + duration
//
// A move changes only the ends that depend on the moved action. Changed actions wait in a queue, with the
// earliest end first. Each of them can change the next action of its rank and the action that uses its
// output. The computation stops when the queue is empty.
//
// If no action in the queue would end earlier, no other action will end earlier, because ends are sums and
// maxima. If the sum of ends is then not smaller than before the move, the move is rejected. This is the case
// for nearly all moves.
//
// There was no cycle of waits before the move. If ranks wait for each other after the move, the moved action
// is part of the cycle. The change of its end then reaches the moved action again. squeeze() proposes the
// moves. Tested by search_test.cpp.

#include "schedules/search/timed_lists.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"

namespace penstock {

namespace {

/// The end of an action whose times have not been computed yet. Real ends are never negative.
constexpr Ns kNotYet = -1;

}  // namespace

RetimedLists::RetimedLists(const std::vector<std::vector<Action>>& lists, const OrderCosts& costs) {
  std::size_t count = 0;
  for (const std::vector<Action>& list : lists) count += list.size();
  actions_.reserve(count);
  nodes_.reserve(count);
  ranks_.reserve(lists.size());
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    append_list(lists[rank], static_cast<std::int32_t>(rank), costs);
  }
  connect(costs);
  run_all();
}

void RetimedLists::append_list(const std::vector<Action>& list, std::int32_t rank, const OrderCosts& costs) {
  const auto begin = static_cast<Number>(nodes_.size());
  Bytes kept = 0;
  for (const Action& action : list) {
    const StageCost& cost = costs.stages[index(action.stage)];
    if (action.kind == ActionKind::forward) kept += cost.kept;
    kept -= released_activations(cost, action.kind);
    const auto number = static_cast<Number>(nodes_.size());
    // Numbers continue from rank to rank. Each list is a linked list of numbers, so a move changes only a few
    // links, and all numbers stay valid.
    nodes_.push_back({.end = kNotYet,
                      .duration = duration_ns(cost, action.kind),
                      .kept = kept,
                      .previous = number == begin ? kNone : number - 1,
                      .next = number + 1,
                      .rank = rank});
    actions_.push_back(action);
  }
  Rank placed{.limit = costs.memory_limit[index(rank)]};
  if (!list.empty()) {
    nodes_.back().next = kNone;
    placed.first = begin;
    placed.last = static_cast<Number>(nodes_.size()) - 1;
  }
  ranks_.push_back(placed);
}

/// Connects the actions that exchange messages, and each backward with its F.
void RetimedLists::connect(const OrderCosts& costs) {
  const std::size_t stages = costs.stages.size();
  const auto microbatches = index(costs.microbatches);
  std::vector<Number> forwards(stages * microbatches, kNone);
  std::vector<Number> gradients(stages * microbatches, kNone);
  const auto at = [&](std::int32_t stage, std::int32_t m) { return index(stage) * microbatches + index(m); };
  for (std::size_t number = 0; number < actions_.size(); ++number) {
    const Action& action = actions_[number];
    const std::size_t place = at(action.stage, action.microbatch);
    if (action.kind == ActionKind::forward) forwards[place] = static_cast<Number>(number);
    if (makes_input_gradient(action.kind)) gradients[place] = static_cast<Number>(number);
  }
  // A transfer takes equally long in both directions, so the number of the lower stage is enough to find the
  // edge.
  const auto give = [&](Number giver, Number taker, std::int32_t lower_stage) {
    const std::size_t lower = index(lower_stage);
    node(giver).taker = taker;
    node(taker).giver = giver;
    node(taker).delay = costs.rank_of[lower] == costs.rank_of[lower + 1] ? 0 : costs.transfer_ns[lower];
  };
  for (std::int32_t stage = 0; stage < static_cast<std::int32_t>(stages); ++stage) {
    for (std::int32_t m = 0; m < costs.microbatches; ++m) {
      // The backward of the last stage has no giver. It needs only its own F, which comes before it in the
      // same list. No move changes the order of these two.
      node(gradients[at(stage, m)]).own = forwards[at(stage, m)];
      if (stage == 0) continue;
      give(forwards[at(stage - 1, m)], forwards[at(stage, m)], stage - 1);
      give(gradients[at(stage, m)], gradients[at(stage - 1, m)], stage - 1);
    }
  }
}

/// Computes the times of all actions in the original lists.
void RetimedLists::run_all() {
  std::vector<Number> cursors(ranks_.size());
  std::ranges::transform(ranks_, cursors.begin(), &Rank::first);
  const auto ready = [&](Number number) {
    return number != kNone && (node(number).giver == kNone || node(node(number).giver).end != kNotYet);
  };
  // In each round, each rank advances as far as possible. Valid lists are complete when no rank can advance.
  for (bool moved = true; moved;) {
    moved = false;
    for (Number& cursor : cursors) {
      for (; ready(cursor); cursor = next(cursor)) {
        node(cursor).end = end_now(node(cursor));
        length_.sum_of_ends_ns += node(cursor).end;
        moved = true;
      }
    }
  }
  length_.longest_span_ns = longest_span();
}

Ns RetimedLists::longest_span() const {
  Ns longest = 0;
  for (const Rank& rank : ranks_) {
    if (rank.first == kNone) continue;
    const Node& first = node(rank.first);
    longest = std::max(longest, node(rank.last).end - (first.end - first.duration));
  }
  return longest;
}

Ns RetimedLists::last_end_ns() const {
  Ns last = 0;
  for (const Rank& rank : ranks_) {
    if (rank.last != kNone) last = std::max(last, node(rank.last).end);
  }
  return last;
}

std::vector<std::vector<Action>> RetimedLists::lists() const {
  std::vector<std::vector<Action>> lists(ranks_.size());
  for (std::int32_t rank = 0; rank < rank_count(); ++rank) {
    for (Number number = first(rank); number != kNone; number = next(number)) {
      lists[index(rank)].push_back(action(number));
    }
  }
  return lists;
}

bool RetimedLists::fits(Number action, Number target) const {
  // The memory that the action allocates counts from its new position on. It therefore also counts for the
  // actions that it passes. A backward allocates nothing, so it always fits.
  const Node& moved = node(action);
  const Bytes limit = ranks_[index(moved.rank)].limit;
  const auto kept_after = [&](Number number) { return number == kNone ? 0 : node(number).kept; };
  const Bytes added = moved.kept - kept_after(moved.previous);
  if (kept_after(node(target).previous) + added > limit) return false;
  for (Number passed = target; passed != action; passed = next(passed)) {
    if (node(passed).kept + added > limit) return false;
  }
  return true;
}

bool RetimedLists::move_if_shorter(Number action, Number target) {
  Node& moved = node(action);
  // A cycle of waits is found when an end changes (see the top of this file). If no action of the cycle had a
  // duration, no end would change, and the cycle would not be found.
  if (moved.duration == 0 && input_at(moved) >= node(target).end) return false;
  const Number next_before = moved.next;
  // The target comes before the action, so the action has a previous action.
  const Bytes added = moved.kept - node(moved.previous).kept;
  // True if the first or last action of the rank changes.
  spans_may_change_ = next_before == kNone || node(target).previous == kNone;
  spans_may_shrink_ = spans_may_change_;
  put_before(target, action);
  set_end(action, end_now(moved));
  touch(target);
  if (next_before != kNone) touch(next_before);
  const std::optional<Length> length = follow_changes(action);
  const bool is_shorter = length && *length < length_;
  if (is_shorter) {
    moved.kept = added + (moved.previous == kNone ? 0 : node(moved.previous).kept);
    for (Number passed = target; passed != next_before; passed = next(passed)) node(passed).kept += added;
    length_ = *length;
  } else {
    // Changes are undone from the last to the first, so that an action with two changes gets its original
    // end.
    put_before(next_before, action);
    for (std::size_t at = changes_.size(); at-- > 0;) node(changes_[at].action).end = changes_[at].end;
  }
  forget_changes();
  return is_shorter;
}

void RetimedLists::put_before(Number target, Number action) {
  Node& moved = node(action);
  Rank& rank = ranks_[index(moved.rank)];
  // Removes the action from the linked list at its old position and inserts it at the new position.
  (moved.previous == kNone ? rank.first : node(moved.previous).next) = moved.next;
  (moved.next == kNone ? rank.last : node(moved.next).previous) = moved.previous;
  moved.next = target;
  moved.previous = target == kNone ? rank.last : node(target).previous;
  (moved.previous == kNone ? rank.first : node(moved.previous).next) = action;
  (target == kNone ? rank.last : node(target).previous) = action;
}

std::optional<Length> RetimedLists::follow_changes(Number moved) {
  while (!queue_.empty()) {
    if (earlier_in_queue_ == 0 && sum_change_ >= 0 && !spans_may_shrink_) return std::nullopt;
    // The action with the earliest end before the move comes first. If its giver changes later, the action is
    // added to the queue again.
    const Number changed = dequeue();
    if (changed == moved) return std::nullopt;
    set_end(changed, end_now(node(changed)));
  }
  return Length{.longest_span_ns = spans_may_change_ ? longest_span() : length_.longest_span_ns,
                .sum_of_ends_ns = length_.sum_of_ends_ns + sum_change_};
}

void RetimedLists::set_end(Number action, Ns end) {
  Node& changed = node(action);
  if (end == changed.end) return;
  changes_.push_back({.action = action, .end = changed.end});
  sum_change_ += end - changed.end;
  spans_may_shrink_ |= changed.previous == kNone || (changed.next == kNone && end < changed.end);
  spans_may_change_ |= changed.previous == kNone || changed.next == kNone;
  changed.end = end;
  if (changed.next != kNone) touch(changed.next);
  if (changed.taker != kNone) touch(changed.taker);
}

void RetimedLists::touch(Number action) {
  Node& touched = node(action);
  const Ns end = end_now(touched);
  // An action stays in the queue even if its new end equals the old one. set_end() then does nothing.
  if (end == touched.end && !touched.waits_in_queue) return;
  const bool earlier = end < touched.end;
  earlier_in_queue_ += (earlier ? 1 : 0) - (touched.would_be_earlier ? 1 : 0);
  touched.would_be_earlier = earlier;
  if (touched.waits_in_queue) return;
  touched.waits_in_queue = true;
  queue_.push_back(action);
  // The heap is ordered by the ends before the change. These stay constant while an action waits.
  std::ranges::push_heap(queue_, std::greater<>{}, [this](Number number) { return node(number).end; });
}

RetimedLists::Number RetimedLists::dequeue() {
  std::ranges::pop_heap(queue_, std::greater<>{}, [this](Number number) { return node(number).end; });
  const Number action = queue_.back();
  queue_.pop_back();
  Node& waiting = node(action);
  earlier_in_queue_ -= waiting.would_be_earlier ? 1 : 0;
  waiting.waits_in_queue = false;
  waiting.would_be_earlier = false;
  return action;
}

void RetimedLists::forget_changes() {
  for (const Number waiting : queue_) {
    node(waiting).waits_in_queue = false;
    node(waiting).would_be_earlier = false;
  }
  queue_.clear();
  changes_.clear();
  earlier_in_queue_ = 0;
  sum_change_ = 0;
}

// Improves complete lists by local search. It goes through all ranks and positions and accepts the first
// improvement. An action gains from an earlier position only if it waits for its rank. It gains nothing if it
// waits for its input. Ws never wait for an input, so they are not moved. RetimedLists computes the effect of
// a move. Tested by search_test.cpp.

namespace {

/// The largest product of the number of moves and the number of actions. A move can change every action, so
/// this product limits the time for programs of any size.
constexpr std::int64_t kMostTrials = std::int64_t{1} << 23;
constexpr int kReach = 2;  // the number of positions that an action can move at a time

using Lists = std::vector<std::vector<Action>>;

/// A local search that moves single actions to shorten the lists. It goes through all ranks until no move
/// improves the lists.
class Squeezer {
 public:
  Squeezer(const Lists& lists, const OrderCosts& costs)
      : lists_(lists, costs), least_ns_(busiest_rank_ns(lists, costs)) {}

  Lists run() {
    bool improved = true;
    while (improved && !finished()) {
      improved = false;
      for (std::int32_t rank = 0; rank < lists_.rank_count() && !finished(); ++rank) improved |= pass(rank);
    }
    return lists_.lists();
  }

 private:
  using Number = RetimedLists::Number;

  // No span is shorter than the work of the busiest rank. If the longest span has this length, the search
  // ends.
  bool finished() const { return trials_ >= kMostTrials || lists_.length().longest_span_ns == least_ns_; }

  static Ns busiest_rank_ns(const Lists& lists, const OrderCosts& costs) {
    Ns busiest = 0;
    for (const std::vector<Action>& list : lists) {
      Ns busy = 0;
      for (const Action& action : list) busy += duration_ns(costs.stages[index(action.stage)], action.kind);
      busiest = std::max(busiest, busy);
    }
    return busiest;
  }

  /// Tries to move each action of the rank once. Returns true if any action has moved.
  bool pass(std::int32_t rank) {
    bool improved = false;
    for (Number place = lists_.first(rank); place != kNone; place = lists_.next(place)) {
      // A move by one position is tried before a move by two positions. The first move that helps is taken.
      for (int reach = 1; reach <= kReach && !finished(); ++reach) {
        const Number passed = lists_.previous(place);
        const Number target = reach == 1 || passed == kNone ? passed : lists_.previous(passed);
        if (target == kNone) break;
        if (!lists_.waits_for_rank(place) || !try_move(place, target)) continue;
        improved = true;
        // The passed action is now at the old position of the moved action, so the search continues after it.
        place = passed;
      }
    }
    return improved;
  }

  bool try_move(Number action, Number target) {
    if (follows_from(lists_.action(target), lists_.action(action))) return false;
    if (!lists_.fits(action, target)) return false;
    // A move may change times in all lists, so it is counted as that many actions.
    trials_ += lists_.action_count();
    return lists_.move_if_shorter(action, target);
  }

  /// Returns true if `later` must not move before `earlier` in the list. This holds if both have the same
  /// stage, and also the same kind or the same microbatch.
  static bool follows_from(const Action& earlier, const Action& later) {
    if (earlier.stage != later.stage) return false;
    return earlier.kind == later.kind || earlier.microbatch == later.microbatch;
  }

  static constexpr Number kNone = RetimedLists::kNone;

  RetimedLists lists_;
  Ns least_ns_ = 0;
  std::int64_t trials_ = 0;
};

}  // namespace

std::vector<std::vector<Action>> squeeze(const std::vector<std::vector<Action>>& lists,
                                         const OrderCosts& costs) {
  return Squeezer(lists, costs).run();
}

}  // namespace penstock
