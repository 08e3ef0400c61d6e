// An action ends at
//
//   end = max(end of the action before it on its rank, end of its giver + delay) + duration
//
// and a move changes only what follows from it. Changed actions wait in a queue, earliest first, and each
// hands its change on to the next one on its rank and to the one it gives to, until nothing changes any more.
// All of this only ever adds and takes maxima: once no change in the queue is towards earlier, nothing else
// will end earlier, so a move whose ends sum up to as much as before by then is given up at once. That is
// nearly all.
//
// Ranks that wait for each other wait for the moved action, since before the move nobody did: the change of
// its end comes back to it.

#include "schedules/search/retimed_lists.hpp"

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
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

/// The end of an action that has not been timed; ends are never negative.
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
    // Numbers run on from rank to rank, and the list is a chain through them: a move relinks a few
    // neighbours, and every number stays what it was.
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

/// Who gives to whom, and which F a backward belongs to.
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
  // Transfers have one delay an edge, so that the lower stage names it in both directions.
  const auto give = [&](Number giver, Number taker, std::int32_t lower_stage) {
    const std::size_t lower = index(lower_stage);
    node(giver).taker = taker;
    node(taker).giver = giver;
    node(taker).delay = costs.rank_of[lower] == costs.rank_of[lower + 1] ? 0 : costs.transfer_ns[lower];
  };
  for (std::int32_t stage = 0; stage < static_cast<std::int32_t>(stages); ++stage) {
    for (std::int32_t m = 0; m < costs.microbatches; ++m) {
      // The last stage's backward has no giver: its own F stands before it in the same list, where no move
      // takes it past that.
      node(gradients[at(stage, m)]).own = forwards[at(stage, m)];
      if (stage == 0) continue;
      give(forwards[at(stage - 1, m)], forwards[at(stage, m)], stage - 1);
      give(gradients[at(stage, m)], gradients[at(stage - 1, m)], stage - 1);
    }
  }
}

/// The first times of all, before anything moves.
void RetimedLists::run_all() {
  std::vector<Number> cursors(ranks_.size());
  std::ranges::transform(ranks_, cursors.begin(), &Rank::first);
  const auto ready = [&](Number number) {
    return number != kNone && (node(number).giver == kNone || node(node(number).giver).end != kNotYet);
  };
  // Each rank goes as far as it can, round by round. Lists that can run are through when no rank moves.
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
  // What the action adds to memory counts earlier now: at its new place and behind all that it passes. A
  // backward adds nothing or less and always fits.
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
  // A circle shows in ends that change (above). Without any duration in it none would change, so that it
  // would go unseen.
  if (moved.duration == 0 && input_at(moved) >= node(target).end) return false;
  const Number next_before = moved.next;
  // The target stands before the action, so that there is a previous one.
  const Bytes added = moved.kept - node(moved.previous).kept;
  // A rank gets another last action or another first one.
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
    // Backwards, so that an action that changed twice gets the end that it had first.
    put_before(next_before, action);
    for (std::size_t at = changes_.size(); at-- > 0;) node(changes_[at].action).end = changes_[at].end;
  }
  forget_changes();
  return is_shorter;
}

void RetimedLists::put_before(Number target, Number action) {
  Node& moved = node(action);
  Rank& rank = ranks_[index(moved.rank)];
  // Out of the chain at the old place, then into it at the new one.
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
    // What is taken out first ended first before the move; an action whose giver changes again is touched
    // again.
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
  // An action that waits stays in the queue even where its end is again what it was: set_end() finds
  // nothing to do then.
  if (end == touched.end && !touched.waits_in_queue) return;
  const bool earlier = end < touched.end;
  earlier_in_queue_ += (earlier ? 1 : 0) - (touched.would_be_earlier ? 1 : 0);
  touched.would_be_earlier = earlier;
  if (touched.waits_in_queue) return;
  touched.waits_in_queue = true;
  queue_.push_back(action);
  // By the ends before the change. They stay as long as an action waits, so that the heap stays one.
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

}  // namespace penstock
