#pragma once
// Lists of actions that compute the times of these actions while a generator appends them. zb_auto.cpp
// chooses the next action by these times. Only schedules/ includes this header.

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// The costs of the model and the machine that a generator reads when it searches for an order.
struct OrderCosts {
  /// The costs of each stage. Its bytes `kept` and `released_by_input` count against memory_limit.
  std::vector<StageCost> stages;
  /// The transfer time of each edge between stages s and s+1 that are on different ranks.
  std::vector<Ns> transfer_ns;
  /// The memory limit of each rank in bytes.
  std::vector<Bytes> memory_limit;
  /// The rank of each stage.
  std::vector<std::int32_t> rank_of;
  std::int32_t microbatches = 0;
};

/// Returns the costs that `shape` states for the stages of `placed`. If it states no costs, each F, I and W
/// takes one unit of time. If it states no memory limit, a rank may store `activations_per_rank`
/// activations of its stages. If bytes are unknown, each activation is one unit. Requires that each stage
/// is on one rank. Fails if a list in `shape` has the wrong length. Also fails if a memory limit is below
/// the memory of one microbatch; the message states this memory.
tl::expected<OrderCosts, std::string> order_costs(const Shape& shape, const Program& placed,
                                                  std::int64_t activations_per_rank);

/// Returns the costs with memory counted in activations of equal size. `activations` is the memory limit of
/// each rank. An activation is stored from the start of F to the end of B or W.
OrderCosts counting_activations(OrderCosts costs, std::vector<Bytes> activations);

/// The share of a rank in one microbatch: the work of the rank's stages, and the memory that these stages
/// store.
struct MicrobatchShare {
  Ns work_ns = 0;
  Bytes kept = 0;
};
/// Returns the share of each rank in one microbatch.
std::vector<MicrobatchShare> microbatch_shares(const OrderCosts& costs);
/// Returns the memory of one microbatch on the rank that needs most. If this rank's limit is lower, no
/// order can run.
Bytes most_kept_by_one_microbatch(const OrderCosts& costs);
/// Returns the peak memory of a rank that runs `list`.
Bytes peak_kept(const std::vector<Action>& list, const OrderCosts& costs);
/// Returns the compute time of the busiest rank for all microbatches.
Ns busiest_work_ns(const OrderCosts& costs);

/// The lists of all ranks, with times. Requires that the stages form a chain, and that the microbatches of
/// each kind and stage are appended in ascending order.
class TimedLists {
 public:
  /// Stores a reference to `costs`, which must outlive this object.
  explicit TimedLists(const OrderCosts& costs);

  const OrderCosts& costs() const { return *costs_; }
  std::int32_t rank_count() const { return static_cast<std::int32_t>(ranks_.size()); }
  const std::vector<Action>& list(std::int32_t rank) const { return ranks_[index(rank)].list; }
  /// Returns the number of F (`forwards`) or of B and I (`backwards`) of a stage in the lists.
  std::int32_t forwards(std::int32_t stage) const { return forwards_[index(stage)]; }
  std::int32_t backwards(std::int32_t stage) const { return backwards_[index(stage)]; }

  /// Returns the time at which the input of an F, B or I arrives on its rank. Returns nothing if the lists
  /// do not yet contain the action that produces the input.
  std::optional<Ns> arrival_ns(const Action& action) const;
  /// Appends the action to the list of its rank. It starts when the rank is free and its input has arrived,
  /// but not before `earliest_ns`. The lists must already contain the action that produces its input. For a
  /// W, they must contain its I.
  void place(const Action& action, Ns earliest_ns = 0);

  /// Returns the end of the rank's last action, which is when the rank becomes free.
  Ns free_at_ns(std::int32_t rank) const { return ranks_[index(rank)].free_at_ns; }
  /// Returns the total pauses of a rank since its first action. most_idle_ns() is the maximum over all ranks.
  Ns idle_ns(std::int32_t rank) const { return ranks_[index(rank)].idle_ns; }
  Ns most_idle_ns() const { return most_idle_ns_; }
  /// Returns true if the rank has run an I (gradient of the input) whose W (gradient of the weights) has
  /// not run.
  bool owes_weight(std::int32_t rank) const { return ranks_[index(rank)].owes_weight(); }
  /// Places the W (gradient of the weights) that the rank has postponed longest. Requires that there is
  /// one.
  void place_owed_weight(std::int32_t rank, Ns earliest_ns = 0);
  /// Returns true if the F fits into the rank's memory now. The next function, fits_without_owed(), assumes
  /// that all postponed Ws have run.
  bool fits(const Action& forward) const;
  bool fits_without_owed(const Action& forward) const;

  /// Returns the longest time of a rank from its first start to its last end.
  Ns longest_span_ns() const;

 private:
  struct Rank {
    std::vector<Action> list;
    std::vector<Action> weights;  // the Ws of all I actions in the list
    std::size_t placed_weights = 0;
    std::optional<Ns> first_start_ns;
    Ns free_at_ns = 0;
    Ns idle_ns = 0;
    Bytes kept = 0;
    Bytes owed_bytes = 0;

    bool owes_weight() const { return placed_weights < weights.size(); }
  };

  std::size_t at(std::int32_t stage, std::int32_t microbatch) const {
    return index(stage) * index(costs_->microbatches) + index(microbatch);
  }
  Rank& rank_of(std::int32_t stage) { return ranks_[index(costs_->rank_of[index(stage)])]; }
  Ns transfer_ns(std::int32_t from_stage, std::int32_t to_stage) const;
  /// Updates the counts, the memory and the postponed Ws of the rank after an action that ends at `end_ns`.
  void account(Rank& rank, const Action& action, Ns end_ns);

  const OrderCosts* costs_;
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> forwards_;   // number of F of each stage
  std::vector<std::int32_t> backwards_;  // number of B and I of each stage
  std::vector<Ns> forward_end_ns_;       // end of the F of each stage and microbatch
  std::vector<Ns> gradient_end_ns_;
  Ns most_idle_ns_ = 0;
};

// Finds the rank that looks for work next. The times of all ranks are in a tree. Every node stores the
// earlier of its two children. If the times are equal, it stores the lower rank.

/// A rank, and the time at which it looks for its next action.
struct Waking {
  Ns time_ns = 0;
  std::int32_t rank = 0;
};

/// The next wake-up time of every rank.
class WakeTimes {
 public:
  /// A time later than any other time.
  static constexpr Ns kNever = std::numeric_limits<Ns>::max();

  /// Sets the time of all ranks to kNever.
  explicit WakeTimes(std::int32_t ranks)
      : leaves_(std::bit_ceil(index(ranks))),
        rank_bits_(std::countr_zero(leaves_)),
        nodes_(2 * leaves_, kNever) {}

  Ns of(std::int32_t rank) const { return time_of(nodes_[leaves_ + index(rank)]); }
  /// Returns the rank that wakes up first, and its time. The time is kNever if no rank will wake up.
  Waking earliest() const {
    const Ns node = nodes_[1];
    return {.time_ns = time_of(node),
            .rank = node == kNever ? 0 : static_cast<std::int32_t>(node & (std::ssize(nodes_) / 2 - 1))};
  }

  /// Sets the time of a rank. Requires kNever or a time below 2^63 / ranks. Costs that could give longer
  /// times are rejected before a search.
  void set(std::int32_t rank, Ns time_ns) {
    std::size_t node = leaves_ + index(rank);
    Ns earlier = time_ns == kNever ? kNever : (time_ns << rank_bits_) + rank;
    nodes_[node] = earlier;
    while (node > 1) {
      earlier = std::min(earlier, nodes_[node ^ 1]);
      node /= 2;
      nodes_[node] = earlier;
    }
  }

 private:
  Ns time_of(Ns node) const { return node == kNever ? kNever : node >> rank_bits_; }

  std::size_t leaves_;
  int rank_bits_;
  /// The nodes of a binary tree that finds the earliest time. Each node is a time with its rank in the
  /// lowest bits. The root has index 1, node n has the children 2n and 2n + 1, and the ranks begin at index
  /// leaves_.
  std::vector<Ns> nodes_;
};

// Complete lists that update their times when an action moves. squeeze() tries moves on them. Only
// schedules/ includes this header.

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
    Bytes kept = 0;  // bytes that the rank stores after the action
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
  /// Adds the action to the queue of actions whose ends are computed again, if its end must change.
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
