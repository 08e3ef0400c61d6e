#pragma once
// Lists of actions that know when each action runs while they are being written: the ground on which the
// schedules that weigh costs choose (zb_auto.cpp). Private to schedules/.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// What a generator that weighs costs knows of the model and the machine.
struct OrderCosts {
  std::vector<StageCost> stages;      ///< `kept` and `released_by_input` count against memory_limit
  std::vector<Ns> transfer_ns;        ///< between stages s and s+1 on different ranks; one an edge
  std::vector<Bytes> memory_limit;    ///< one a rank
  std::vector<std::int32_t> rank_of;  ///< one a stage
  std::int32_t microbatches = 0;
};

/// The costs that `shape` states for the stages of `placed`, whose microbatches each live on one rank a
/// stage. Without costs F, I and W take one time unit each. `activations_per_rank` is the limit where the
/// shape has none: in activations of the rank's own stages, of one unit each where their bytes are unknown.
/// Errors: lists of the wrong length, a limit below what one microbatch needs (the needed bytes are named).
tl::expected<OrderCosts, std::string> order_costs(const Shape& shape, const Program& placed,
                                                  std::int64_t activations_per_rank);

/// The same with memory counted in activations, all alike and held from F to the end of B or W.
OrderCosts counting_activations(OrderCosts costs, std::vector<Bytes> activations);

/// What one microbatch is to a rank: its stages' work on it, and what they keep of it.
struct MicrobatchShare {
  Ns work_ns = 0;
  Bytes kept = 0;
};
/// By rank.
std::vector<MicrobatchShare> microbatch_shares(const OrderCosts& costs);
/// Returns what one microbatch takes on the rank where that is most. No limit below it lets anything run.
Bytes most_kept_by_one_microbatch(const OrderCosts& costs);
/// Returns the most that a rank with this list keeps at a time.
Bytes peak_kept(const std::vector<Action>& list, const OrderCosts& costs);
/// Work on all microbatches of the rank that has most.
Ns busiest_work_ns(const OrderCosts& costs);

/// The lists of all ranks. Requires one sender a stage edge and microbatches in ascending order for each
/// kind of action of a stage.
class TimedLists {
 public:
  /// Keeps a reference to the costs.
  explicit TimedLists(const OrderCosts& costs);

  const OrderCosts& costs() const { return *costs_; }
  std::int32_t rank_count() const { return static_cast<std::int32_t>(ranks_.size()); }
  const std::vector<Action>& list(std::int32_t rank) const { return ranks_[index(rank)].list; }
  /// How many of a stage's F, or of its B or I, are in the lists.
  std::int32_t forwards(std::int32_t stage) const { return forwards_[index(stage)]; }
  std::int32_t backwards(std::int32_t stage) const { return backwards_[index(stage)]; }

  /// When the input of an F, B or I is on its rank; nothing while what makes it is not in the lists.
  std::optional<Ns> arrival_ns(const Action& action) const;
  /// Puts the action at the end of its rank's list; it starts once the rank is free, its input is there, and
  /// not before `earliest_ns`. Requires its input, and for a W its I, to be in the lists.
  void place(const Action& action, Ns earliest_ns = 0);

  /// The end of the rank's last action.
  Ns free_at_ns(std::int32_t rank) const { return ranks_[index(rank)].free_at_ns; }
  /// Pauses of a rank since its first action, and the longest of all ranks.
  Ns idle_ns(std::int32_t rank) const { return ranks_[index(rank)].idle_ns; }
  Ns most_idle_ns() const { return most_idle_ns_; }
  /// Whether the rank owes a W for an I.
  bool owes_weight(std::int32_t rank) const { return ranks_[index(rank)].owes_weight(); }
  /// Places the oldest W that the rank owes. Requires one.
  void place_owed_weight(std::int32_t rank, Ns earliest_ns = 0);
  /// Whether the F fits into the rank's memory now, or once all owed W have run.
  bool fits(const Action& forward) const;
  bool fits_without_owed(const Action& forward) const;

  /// From a rank's first start to its last end; the longest of all ranks.
  Ns longest_span_ns() const;

 private:
  struct Rank {
    std::vector<Action> list;
    std::vector<Action> weights;  // of all I in the list
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
  /// What an action that ends then changes beside the rank's clock: counts, memory, the W that are owed.
  void account(Rank& rank, const Action& action, Ns end_ns);

  const OrderCosts* costs_;
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> forwards_;   // by stage
  std::vector<std::int32_t> backwards_;  // by stage
  std::vector<Ns> forward_end_ns_;       // by stage and microbatch
  std::vector<Ns> gradient_end_ns_;
  Ns most_idle_ns_ = 0;
};

}  // namespace penstock
