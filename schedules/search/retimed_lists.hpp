#pragma once
// Complete lists that update their times when an action moves. squeeze() tries moves on them. Only
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

/// The length of complete lists. Smaller values are better; `sum_of_ends_ns` decides between equal spans.
struct Length {
  /// The longest time of a rank from its first start to its last end.
  Ns longest_span_ns = 0;
  /// The sum of the ends of all actions.
  Ns sum_of_ends_ns = 0;

  friend auto operator<=>(const Length&, const Length&) = default;
};

/// The lists of F, B, I (gradient of the input) and W (gradient of the weights) of all ranks, with times.
/// Each action has a number that does not change when the action moves. Requires lists that can run.
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
  /// Returns the time at which all ranks are finished.
  Ns last_end_ns() const;

  /// Returns true if the previous action of the rank, not the arrival of its input, determines the start of
  /// an F, B or I.
  bool waits_for_rank(Number number) const {
    const Node& waiting = node(number);
    const Ns start = waiting.end - waiting.duration;
    if (start <= input_at(waiting) || action(number).kind == ActionKind::backward_weight) return false;
    return waiting.own == kNone || node(waiting.own).end < start;
  }
  /// Returns true if the rank stays within its memory limit when `action` moves before `target`. Requires
  /// that `target` is one or two positions before `action` on the same rank.
  bool fits(Number action, Number target) const;
  /// Moves `action` before `target` and returns true if this makes the lists shorter. Otherwise returns
  /// false and changes nothing. Also returns false if ranks would then wait for each other. Requires fits()
  /// and waits_for_rank(action). `target` must have another stage or microbatch. An action without duration
  /// is not moved before a target that ends before the action's input arrives.
  bool move_if_shorter(Number action, Number target);

 private:
  struct alignas(64) Node {
    Ns end = 0;
    Ns duration = 0;
    Ns delay = 0;    // the delay of the message from the giver
    Bytes kept = 0;  // the memory of the rank after the action
    Number previous = kNone;
    Number next = kNone;
    Number giver = kNone;  // the action on another stage that produces its input
    Number taker = kNone;  // the action on another stage that uses its output
    Number own = kNone;    // the F that belongs to a B or I
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
    Ns end = 0;  // its end before the change
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

  /// Moves the action before `target`. If `target` is kNone, moves it to the end of its rank.
  void put_before(Number target, Number action);
  /// Sets the new end of an action and calls touch() for all actions that depend on it.
  void set_end(Number action, Ns end);
  /// Adds the action to the queue if its end must change.
  void touch(Number action);
  /// Removes an action from the queue and returns it. It is the action that ended earliest before the move.
  Number dequeue();
  /// Computes the new length of the lists after `moved` has changed its position. Returns nothing if this
  /// length cannot be shorter than the old one, or if ranks wait for each other.
  std::optional<Length> follow_changes(Number moved);
  /// Clears the record of changed ends, after a move was accepted or undone.
  void forget_changes();

  std::vector<Action> actions_;
  std::vector<Node> nodes_;
  std::vector<Rank> ranks_;
  Length length_;
  // These members belong to the current move.
  std::vector<Change> changes_;
  std::vector<Number> queue_;          // a heap of the actions that may change; the earliest end is first
  std::int32_t earlier_in_queue_ = 0;  // how many actions in the queue would end earlier
  Ns sum_change_ = 0;                  // the change so far in the sum of all ends
  bool spans_may_change_ = false;      // true if a rank's first or last action has changed
  bool spans_may_shrink_ = false;
};

// Local search on complete lists: actions move to an earlier position as long as that makes the program
// shorter.

/// Returns improved lists. It moves one F, B or I at a time, by at most two positions to the front. A move
/// must respect all memory limits. It is accepted if the longest span of a rank decreases. It is also
/// accepted if this span stays equal and the sum of all ends decreases. The search stops when no move helps,
/// when the rank with the longest span never pauses, or after a fixed amount of work. Requires lists of F, I,
/// W and B that can run and fit into memory.
std::vector<std::vector<Action>> squeeze(const std::vector<std::vector<Action>>& lists,
                                         const OrderCosts& costs);

}  // namespace penstock
