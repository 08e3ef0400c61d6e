#pragma once
// Lists of actions that compute the times of these actions while a generator appends them. zb_auto.cpp
// chooses the next action by these times. Only schedules/ includes this header.

#include <algorithm>
#include <bit>
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
  std::vector<std::int32_t> forwards_;   // by stage
  std::vector<std::int32_t> backwards_;  // by stage
  std::vector<Ns> forward_end_ns_;       // by stage and microbatch
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

}  // namespace penstock
