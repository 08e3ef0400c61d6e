// Computes the times of actions while a generator appends them to lists. The times depend only on the order:
// an action starts when its rank is free and its input has arrived.
//
//   start = max(rank free, arrival of the input, earliest)      pause = start - rank free (not for the first)
//   kept    the memory of a rank: F adds all that it stores; B releases all, or I a part and W the rest
//   owed    the memory that the Ws would release for which the I has run
//
// retimed_lists.cpp changes complete lists. Tested by search_test.cpp and weighed_costs_test.cpp.

#include "schedules/search/timed_lists.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {
namespace {

/// Returns `wanted` numbers from the values that a user gave for `key`. If `given` has one number, this
/// number is used for all. A model with one stage has no edges, so numbers for edges are then ignored.
/// Fails if the number of values is wrong, or if a value is negative.
template <class Value>
tl::expected<std::vector<Value>, std::string> one_each(std::string_view key, std::vector<Value> given,
                                                       std::size_t wanted, std::string_view each) {
  if (given.size() == 1) given.resize(wanted, given.front());
  if (given.size() != wanted && wanted > 0) {
    return tl::unexpected(fmt::format("{}: expected one number or {}, one {}, got {} numbers", key, wanted,
                                      each, given.size()));
  }
  for (const Value value : given) {
    if (value < 0)
      return tl::unexpected(fmt::format("{}: expected numbers of at least 0, got {}", key, value));
  }
  given.resize(wanted);
  return given;
}

/// Returns the memory of one microbatch on all chunks of the rank. With less memory, no microbatch can
/// finish.
Bytes kept_by_one_microbatch(const OrderCosts& costs, std::int32_t rank) {
  Bytes kept = 0;
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    if (costs.rank_of[stage] == rank) kept += costs.stages[stage].kept;
  }
  return kept;
}

/// Sets each unknown size of a stage's activations to one unit.
void count_unknown_bytes(OrderCosts& costs) {
  for (StageCost& cost : costs.stages) {
    if (cost.kept > 0) continue;
    cost.kept = 1;
    cost.released_by_input = 0;
  }
}

/// Returns a memory limit for each rank: the memory of `activations` activations of its stages. If the
/// activations of a rank's stages differ in size, the function uses their mean.
std::vector<Bytes> limits_of_activations(const OrderCosts& costs, std::int32_t ranks,
                                         std::int64_t activations) {
  const auto chunks = static_cast<std::int64_t>(costs.stages.size()) / ranks;
  std::vector<Bytes> limits;
  limits.reserve(static_cast<std::size_t>(ranks));
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    // The limit is stated in activations of one stage. A microbatch needs one for each of the rank's stages,
    // so the limit is divided by their number.
    limits.push_back(kept_by_one_microbatch(costs, rank) * activations / chunks);
  }
  return limits;
}

}  // namespace

tl::expected<OrderCosts, std::string> order_costs(const Shape& shape, const Program& placed,
                                                  std::int64_t activations_per_rank) {
  const auto stages = static_cast<std::size_t>(placed.stage_count());
  const CostTable table = shape.costs.value_or(unit_costs(placed));
  if (table.stages.size() != stages) {
    return tl::unexpected(
        fmt::format("costs: expected those of {} stages, got {}", stages, table.stages.size()));
  }
  std::vector<Ns> delays = shape.transfer_ns.empty() ? std::vector<Ns>{0} : shape.transfer_ns;
  auto transfer_ns = one_each("transfer_ns", std::move(delays), stages - 1, "a stage edge");
  if (!transfer_ns) return tl::unexpected(transfer_ns.error());
  OrderCosts costs{.stages = table.stages,
                   .transfer_ns = *std::move(transfer_ns),
                   .memory_limit = {},
                   .rank_of = {},
                   .microbatches = placed.microbatches};
  for (std::int32_t stage = 0; stage < placed.stage_count(); ++stage) {
    costs.rank_of.push_back(placed.placement.rank_of(stage, 0));
  }
  if (shape.memory_limit.empty()) {
    count_unknown_bytes(costs);
    costs.memory_limit = limits_of_activations(costs, placed.rank_count(), activations_per_rank);
    return costs;
  }
  auto limits = one_each("memory_limit", shape.memory_limit, placed.ranks.size(), "a rank");
  if (!limits) return tl::unexpected(limits.error());
  costs.memory_limit = *std::move(limits);
  for (std::int32_t rank = 0; rank < placed.rank_count(); ++rank) {
    const Bytes needed = kept_by_one_microbatch(costs, rank);
    const Bytes limit = costs.memory_limit[static_cast<std::size_t>(rank)];
    if (limit < needed) {
      return tl::unexpected(fmt::format(
          "memory_limit: rank {} keeps {} bytes for one microbatch, the limit is {}; at least {} are needed",
          rank, needed, limit, needed));
    }
  }
  return costs;
}

std::vector<MicrobatchShare> microbatch_shares(const OrderCosts& costs) {
  std::vector<MicrobatchShare> shares(costs.memory_limit.size());
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageCost& cost = costs.stages[stage];
    MicrobatchShare& share = shares[index(costs.rank_of[stage])];
    share.work_ns += cost.forward_ns + cost.backward_input_ns + cost.backward_weight_ns;
    share.kept += cost.kept;
  }
  return shares;
}

Bytes most_kept_by_one_microbatch(const OrderCosts& costs) {
  return std::ranges::max(microbatch_shares(costs), {}, &MicrobatchShare::kept).kept;
}

Bytes peak_kept(const std::vector<Action>& list, const OrderCosts& costs) {
  Bytes kept = 0;
  Bytes peak = 0;
  for (const Action& action : list) {
    const StageCost& cost = costs.stages[index(action.stage)];
    if (action.kind == ActionKind::forward) kept += cost.kept;
    peak = std::max(peak, kept);
    kept -= released_activations(cost, action.kind);
  }
  return peak;
}

Ns busiest_work_ns(const OrderCosts& costs) {
  return costs.microbatches *
         std::ranges::max(microbatch_shares(costs), {}, &MicrobatchShare::work_ns).work_ns;
}

OrderCosts counting_activations(OrderCosts costs, std::vector<Bytes> activations) {
  for (StageCost& cost : costs.stages) {
    cost.kept = 1;
    cost.released_by_input = 0;
  }
  costs.memory_limit = std::move(activations);
  return costs;
}

TimedLists::TimedLists(const OrderCosts& costs)
    : costs_(&costs),
      ranks_(costs_->memory_limit.size()),
      forwards_(costs_->stages.size(), 0),
      backwards_(costs_->stages.size(), 0),
      forward_end_ns_(costs_->stages.size() * index(costs_->microbatches), 0),
      gradient_end_ns_(forward_end_ns_.size(), 0) {
  constexpr std::size_t kKinds = 3;  // F, I, W
  for (const std::int32_t rank : costs.rank_of) {
    std::vector<Action>& list = ranks_[index(rank)].list;
    // Each stage of the rank reserves memory for its own actions.
    list.reserve(list.capacity() + kKinds * index(costs.microbatches));
  }
}

Ns TimedLists::transfer_ns(std::int32_t from_stage, std::int32_t to_stage) const {
  if (costs_->rank_of[index(from_stage)] == costs_->rank_of[index(to_stage)]) return 0;
  return costs_->transfer_ns[index(std::min(from_stage, to_stage))];
}

std::optional<Ns> TimedLists::arrival_ns(const Action& action) const {
  const std::int32_t stage = action.stage;
  const std::int32_t m = action.microbatch;
  if (action.kind == ActionKind::forward) {
    if (stage == 0) return 0;
    // Microbatches of a stage run in order, so a count above m includes m.
    if (forwards_[index(stage - 1)] <= m) return std::nullopt;
    return forward_end_ns_[at(stage - 1, m)] + transfer_ns(stage - 1, stage);
  }
  if (forwards_[index(stage)] <= m) return std::nullopt;
  const Ns own = forward_end_ns_[at(stage, m)];
  if (stage + 1 == static_cast<std::int32_t>(costs_->stages.size())) return own;
  if (backwards_[index(stage + 1)] <= m) return std::nullopt;
  return std::max(own, gradient_end_ns_[at(stage + 1, m)] + transfer_ns(stage + 1, stage));
}

void TimedLists::place(const Action& action, Ns earliest_ns) {
  Rank& rank = rank_of(action.stage);
  const Ns arrival = action.kind == ActionKind::backward_weight ? 0 : *arrival_ns(action);
  const Ns start = std::max({rank.free_at_ns, arrival, earliest_ns});
  // The time before a rank's first action is not a pause, because the span of the rank begins with this
  // action.
  if (rank.first_start_ns) {
    rank.idle_ns += start - rank.free_at_ns;
    most_idle_ns_ = std::max(most_idle_ns_, rank.idle_ns);
  } else {
    rank.first_start_ns = start;
  }
  rank.free_at_ns = start + duration_ns(costs_->stages[index(action.stage)], action.kind);
  rank.list.push_back(action);
  account(rank, action, rank.free_at_ns);
}

void TimedLists::account(Rank& rank, const Action& action, Ns end_ns) {
  const StageCost& cost = costs_->stages[index(action.stage)];
  const Bytes held_for_weight = released_activations(cost, ActionKind::backward_weight);
  rank.kept -= released_activations(cost, action.kind);
  if (action.kind == ActionKind::forward) {
    forward_end_ns_[at(action.stage, action.microbatch)] = end_ns;
    ++forwards_[index(action.stage)];
    rank.kept += cost.kept;
  } else if (action.kind == ActionKind::backward_weight) {
    rank.owed_bytes -= held_for_weight;
  } else {
    gradient_end_ns_[at(action.stage, action.microbatch)] = end_ns;
    ++backwards_[index(action.stage)];
    // A B includes its W.
    if (action.kind != ActionKind::backward_input) return;
    rank.owed_bytes += held_for_weight;
    rank.weights.push_back(
        {.kind = ActionKind::backward_weight, .stage = action.stage, .microbatch = action.microbatch});
  }
}

void TimedLists::place_owed_weight(std::int32_t rank, Ns earliest_ns) {
  Rank& owing = ranks_[index(rank)];
  // place() adds no W here, so the reference into `weights` stays valid.
  place(owing.weights[owing.placed_weights++], earliest_ns);
}

bool TimedLists::fits(const Action& forward) const {
  const std::int32_t rank = costs_->rank_of[index(forward.stage)];
  return ranks_[index(rank)].kept + costs_->stages[index(forward.stage)].kept <=
         costs_->memory_limit[index(rank)];
}

bool TimedLists::fits_without_owed(const Action& forward) const {
  const std::int32_t rank = costs_->rank_of[index(forward.stage)];
  return ranks_[index(rank)].kept - ranks_[index(rank)].owed_bytes +
             costs_->stages[index(forward.stage)].kept <=
         costs_->memory_limit[index(rank)];
}

Ns TimedLists::longest_span_ns() const {
  Ns longest = 0;
  for (const Rank& rank : ranks_) {
    longest = std::max(longest, rank.free_at_ns - rank.first_start_ns.value_or(rank.free_at_ns));
  }
  return longest;
}

}  // namespace penstock
