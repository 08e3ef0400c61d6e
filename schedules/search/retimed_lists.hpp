#pragma once
// Finished lists whose times follow when an action moves: what squeeze.cpp tries its moves on. Private to
// schedules/.

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

/// How long lists take; less is better.
struct Length {
  Ns longest_span_ns = 0;  ///< of a rank, from its first start to its last end
  Ns sum_of_ends_ns = 0;   ///< over all actions

  friend auto operator<=>(const Length&, const Length&) = default;
};

/// Lists of F, I, W and B that can run, with the times of their actions. An action is named by a number that
/// it keeps while it moves.
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
  /// When all ranks are done.
  Ns last_end_ns() const;

  /// Whether an F, B or I waits for its rank and not for its input.
  bool waits_for_rank(Number number) const {
    const Node& waiting = node(number);
    const Ns start = waiting.end - waiting.duration;
    if (start <= input_at(waiting) || action(number).kind == ActionKind::backward_weight) return false;
    return waiting.own == kNone || node(waiting.own).end < start;
  }
  /// Whether the rank stays within its memory limit when `action` goes before `target`. Requires `target` to
  /// be one or two places before `action` on the same rank.
  bool fits(Number action, Number target) const;
  /// Puts `action` before `target`, as in fits(), if that makes the lists shorter; otherwise, also where
  /// ranks would wait for each other, nothing changes. Requires waits_for_rank(action) and a target that is
  /// not of the same stage and microbatch. An action that takes no time does not pass one that its input
  /// comes after.
  bool move_if_shorter(Number action, Number target);

 private:
  struct alignas(64) Node {
    Ns end = 0;
    Ns duration = 0;
    Ns delay = 0;    // of what the giver sends
    Bytes kept = 0;  // by the rank after the action
    Number previous = kNone;
    Number next = kNone;
    Number giver = kNone;  // makes the input, on the stage before or behind
    Number taker = kNone;  // the other way round
    Number own = kNone;    // of a B or I the F
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
    Ns end = 0;  // before
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

  /// At the end of its rank where `target` is none.
  void put_before(Number target, Number action);
  /// The end of an action that has been worked out anew; who follows from it is touched.
  void set_end(Number action, Ns end);
  /// Something that the action waits for has changed: it goes into the queue if its end would, too.
  void touch(Number action);
  /// Out of the queue, the one that ended first before the move.
  Number dequeue();
  /// How long the lists become; nothing where that is no shorter for sure, or where ranks wait for each
  /// other.
  std::optional<Length> follow_changes(Number moved);
  /// The move is decided on.
  void forget_changes();

  std::vector<Action> actions_;
  std::vector<Node> nodes_;
  std::vector<Rank> ranks_;
  Length length_;
  // of the move that is being tried
  std::vector<Change> changes_;
  std::vector<Number> queue_;          // actions whose end may change: a heap, the earliest end first
  std::int32_t earlier_in_queue_ = 0;  // of these, those whose end would be earlier
  Ns sum_change_ = 0;                  // of all ends so far
  bool spans_may_change_ = false;      // a first or last action of a rank has moved in time or place
  bool spans_may_shrink_ = false;
};

}  // namespace penstock
