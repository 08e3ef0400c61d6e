#pragma once
// Finished lists whose times are updated when an action moves. squeeze.cpp tries its moves on them. Only
// schedules/ includes this header.

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// The length of lists; a smaller one is better.
struct Length {
  /// The longest time of a rank from its first start to its last end.
  Ns longest_span_ns = 0;
  /// The sum of the ends of all actions.
  Ns sum_of_ends_ns = 0;

  friend auto operator<=>(const Length&, const Length&) = default;
};

/// Lists of F, I, W and B, with the times of their actions. An action is named by a number that stays the
/// same while it moves. Requires lists that can run.
class RetimedLists {
 public:
  using Number = std::int32_t;
  static constexpr Number kNone = -1;

  RetimedLists(const std::vector<std::vector<Action>>& lists, const OrderCosts& costs);

  std::int64_t action_count() const { return static_cast<std::int64_t>(actions_.size()); }
  std::int32_t rank_count() const { return static_cast<std::int32_t>(ranks_.size()); }
  Length length() const { return length_; }
  Number first(std::int32_t rank) const { return ranks_[index(rank)].first; }
  Number next(Number action) const { return nodes_[index(action)].next; }
  Number previous(Number action) const { return nodes_[index(action)].previous; }
  const Action& action(Number action) const { return actions_[index(action)]; }
  Ns end_ns(Number action) const { return nodes_[index(action)].end; }
  std::vector<std::vector<Action>> lists() const;
  /// Returns when all ranks are finished.
  Ns last_end_ns() const;

  /// Returns true if an F, B or I waits for its rank and not for its input.
  bool waits_for_rank(Number number) const {
    const Node& waiting = node(number);
    const Ns start = waiting.end - waiting.duration;
    if (start <= input_at(waiting) || action(number).kind == ActionKind::backward_weight) return false;
    return waiting.own == kNone || node(waiting.own).end < start;
  }
  /// Returns true if the rank stays within its memory limit when `action` goes before `target`. Requires that
  /// `target` is one or two positions before `action` on the same rank.
  bool fits(Number action, Number target) const;
  /// Moves `action` before `target` if that makes the lists shorter, and returns whether it did. Otherwise,
  /// and if ranks would wait for each other, nothing changes. Requires fits() and waits_for_rank(action), and
  /// a target of another stage or microbatch. An action without duration is not moved before one that ends
  /// after its input arrives.
  bool move_if_shorter(Number action, Number target);

 private:
  struct alignas(64) Node {
    Ns end = 0;
    Ns duration = 0;
    Ns delay = 0;    // of the message from the giver
    Bytes kept = 0;  // memory of the rank after the action
    Number previous = kNone;
    Number next = kNone;
    Number giver = kNone;  // the action whose output it needs, on the previous or next stage
    Number taker = kNone;  // the action that needs its output
    Number own = kNone;    // the F of a B or I
    std::int32_t rank = 0;
    bool waits_in_queue = false;
    bool would_be_earlier = false;
  };
  struct Rank {
    Number first = kNone;
    Number last = kNone;
    Bytes limit = 0;
  };
  struct Change {
    Number action = kNone;
    Ns end = 0;  // the end before the change
  };

  Node& node(Number action) { return nodes_[index(action)]; }
  const Node& node(Number action) const { return nodes_[index(action)]; }
  void append_list(const std::vector<Action>& list, std::int32_t rank, const OrderCosts& costs);
  void connect(const OrderCosts& costs);
  void run_all();
  Ns rank_free_at(const Node& node) const {
    return node.previous == kNone ? 0 : this->node(node.previous).end;
  }
  Ns input_at(const Node& node) const {
    return node.giver == kNone ? 0 : this->node(node.giver).end + node.delay;
  }
  Ns end_now(const Node& node) const { return std::max(rank_free_at(node), input_at(node)) + node.duration; }
  Ns longest_span() const;

  /// Moves the action before `target`, or to the end of its rank if `target` is kNone.
  void put_before(Number target, Number action);
  /// Sets the new end of an action and touches the actions that depend on it.
  void set_end(Number action, Ns end);
  /// Puts the action into the queue if a change of what it waits for changes its end.
  void touch(Number action);
  /// Removes from the queue the action that ended first before the move.
  Number dequeue();
  /// Returns the new length of the lists. Returns nothing if it is certainly not shorter, or if ranks wait
  /// for each other.
  std::optional<Length> follow_changes(Number moved);
  /// Ends a move after it was accepted or undone.
  void forget_changes();

  std::vector<Action> actions_;
  std::vector<Node> nodes_;
  std::vector<Rank> ranks_;
  Length length_;
  // The following members belong to the move that is being tried.
  std::vector<Change> changes_;
  std::vector<Number> queue_;          // a heap of actions whose end may change, the earliest end first
  std::int32_t earlier_in_queue_ = 0;  // the number of these whose end would become earlier
  Ns sum_change_ = 0;                  // the change of the sum of ends so far
  bool spans_may_change_ = false;      // a first or last action of a rank has changed its time or position
  bool spans_may_shrink_ = false;
};

}  // namespace penstock
