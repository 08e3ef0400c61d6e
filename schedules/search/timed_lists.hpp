#pragma once
// Lists of actions that know when each action runs while they are written. zb_auto.cpp chooses the next
// action by these times. Only schedules/ includes this header.

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

/// The properties of the model and the machine that a generator weighs.
struct OrderCosts {
  /// The costs of each stage; `kept` and `released_by_input` count against memory_limit.
  std::vector<StageCost> stages;
  /// The times between stages s and s+1 if they are on different ranks; one for each edge.
  std::vector<Ns> transfer_ns;
  /// The memory limit of each rank.
  std::vector<Bytes> memory_limit;
  /// The rank of each stage.
  std::vector<std::int32_t> rank_of;
  std::int32_t microbatches = 0;
};

/// Returns the costs that `shape` states for the stages of `placed`. Without costs F, I and W take one time
/// unit each. If the shape states no limit, it is `activations_per_rank` activations of the rank's own
/// stages, of one unit each if their bytes are unknown. Requires that each stage is on one rank. Errors:
/// lists of the wrong length, or a limit below the bytes of one microbatch, which the message names.
tl::expected<OrderCosts, std::string> order_costs(const Shape& shape, const Program& placed,
                                                  std::int64_t activations_per_rank);

/// Returns the costs with memory counted in equal activations, which are held from F to the end of B or W.
OrderCosts counting_activations(OrderCosts costs, std::vector<Bytes> activations);

/// The share of one microbatch on a rank: the work of the rank's stages and the memory that they hold.
struct MicrobatchShare {
  Ns work_ns = 0;
  Bytes kept = 0;
};
/// Returns the share of one microbatch on each rank.
std::vector<MicrobatchShare> microbatch_shares(const OrderCosts& costs);
/// Returns the bytes of one microbatch on the rank that needs most. Below this limit nothing can run.
Bytes most_kept_by_one_microbatch(const OrderCosts& costs);
/// Returns the peak memory of a rank with this list.
Bytes peak_kept(const std::vector<Action>& list, const OrderCosts& costs);
/// Returns the work on all microbatches on the busiest rank.
Ns busiest_work_ns(const OrderCosts& costs);

/// The lists of all ranks. Requires that each stage has one predecessor and one successor at most, and that
/// the microbatches of each kind and stage are ascending.
class TimedLists {
 public:
  /// Stores a reference to the costs.
  explicit TimedLists(const OrderCosts& costs);

  const OrderCosts& costs() const { return *costs_; }
  std::int32_t rank_count() const { return static_cast<std::int32_t>(ranks_.size()); }
  const std::vector<Action>& list(std::int32_t rank) const { return ranks_[index(rank)].list; }
  /// Return how many F, or how many B or I, of a stage are in the lists.
  std::int32_t forwards(std::int32_t stage) const { return forwards_[index(stage)]; }
  std::int32_t backwards(std::int32_t stage) const { return backwards_[index(stage)]; }

  /// Returns when the input of an F, B or I arrives on its rank, or nothing if the action that produces it is
  /// not in the lists.
  std::optional<Ns> arrival_ns(const Action& action) const;
  /// Appends the action to its rank's list. It starts when the rank is free and its input has arrived, but
  /// not before `earliest_ns`. Requires that the action's input, and the I of a W, are in the lists.
  void place(const Action& action, Ns earliest_ns = 0);

  /// Returns the end of the rank's last action.
  Ns free_at_ns(std::int32_t rank) const { return ranks_[index(rank)].free_at_ns; }
  /// Return the pauses of a rank since its first action, and the longest pauses of all ranks.
  Ns idle_ns(std::int32_t rank) const { return ranks_[index(rank)].idle_ns; }
  Ns most_idle_ns() const { return most_idle_ns_; }
  /// Returns true if the rank owes the W of an I.
  bool owes_weight(std::int32_t rank) const { return ranks_[index(rank)].owes_weight(); }
  /// Places the oldest W that the rank owes. Requires that there is one.
  void place_owed_weight(std::int32_t rank, Ns earliest_ns = 0);
  /// Return true if the F fits into the rank's memory now, or after all owed Ws have run.
  bool fits(const Action& forward) const;
  bool fits_without_owed(const Action& forward) const;

  /// Returns the longest time of a rank from its first start to its last end.
  Ns longest_span_ns() const;

 private:
  struct Rank {
    std::vector<Action> list;
    std::vector<Action> weights;  // the Ws of all I in the list
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
  /// Updates counts, memory and owed Ws after an action that ends at `end_ns`.
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
