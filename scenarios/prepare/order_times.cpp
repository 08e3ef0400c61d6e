// Brings the actions of all ranks into one order that respects their inputs. Then one pass over this order
// computes the times for a table of costs:
//
//   rank 0   0F0  0F1  0B0  0B1          0F0 0F1 1F0 1B0 0B0 1F1 1B1 0B1
//   rank 1   1F0  1B0  1F1  1B1    ->    each starts when its rank is free and its input has arrived
//
// Engines (sim/engines) support all channel models. This file supports only what a search for layers needs,
// which times many lists of layers.

#include "scenarios/prepare/order_times.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr std::size_t kKinds = static_cast<std::size_t>(ActionKind::step) + 1;

std::vector<Action> compute_actions_of(const std::vector<Action>& list) {
  std::vector<Action> kept;
  std::ranges::copy_if(list, std::back_inserter(kept),
                       [](const Action& action) { return is_compute(action.kind); });
  return kept;
}

}  // namespace

void OrderTimes::set_channel(Leaf& leaf, std::int32_t consumer) {
  const std::pair ends(leaf.rank, rank_of_stage_[index(consumer)]);
  if (ends.first == ends.second) return;
  const auto [known, fresh] = channels_.try_emplace(ends, static_cast<std::int32_t>(channels_.size()));
  leaf.channel = known->second;
}

// Outputs are numbered by stage and then by unit. All activations come first, and the gradients follow.
OrderTimes::Leaf OrderTimes::leaf_of(const Program& program, const Action& action, std::int32_t rank) {
  const std::int32_t stages = program.stage_count();
  const std::int32_t units = program.unit_count();
  const auto activation = [&](std::int32_t stage) { return stage * units + action.microbatch; };
  const auto gradient = [&](std::int32_t stage) { return (stages + stage) * units + action.microbatch; };
  Leaf leaf{
      .rank = rank,
      .cost = static_cast<std::int32_t>(index(action.stage) * kKinds + static_cast<std::size_t>(action.kind)),
      .overlaps_next = action.overlaps_next};
  const bool is_last = action.stage + 1 == stages;
  const bool is_late = action.kind == ActionKind::recompute && program.recompute == RecomputeTiming::late;
  if (action.kind == ActionKind::forward) {
    if (action.stage > 0) leaf.input = activation(action.stage - 1);
    if (is_last) return leaf;
    leaf.output = activation(action.stage);
    leaf.edge = action.stage;
    set_channel(leaf, action.stage + 1);
  } else if (makes_input_gradient(action.kind) || is_late) {
    if (!is_last) leaf.input = gradient(action.stage + 1);
    if (action.stage == 0 || is_late) return leaf;
    leaf.output = gradient(action.stage);
    leaf.edge = action.stage - 1;
    set_channel(leaf, action.stage - 1);
  }
  return leaf;
}

bool OrderTimes::take(const Program& program, std::span<const Action> group, std::int32_t rank,
                      std::vector<bool>& is_made) {
  std::vector<Leaf> leaves;
  leaves.reserve(group.size());
  for (const Action& action : group) leaves.push_back(leaf_of(program, action, rank));
  const bool is_ready = std::ranges::all_of(
      leaves, [&](const Leaf& leaf) { return leaf.input == kNothing || is_made[index(leaf.input)]; });
  if (!is_ready) return false;
  for (const Leaf& leaf : leaves) {
    if (leaf.output != kNothing) is_made[index(leaf.output)] = true;
    ++counts_[index(leaf.cost)];
    leaves_.push_back(leaf);
  }
  return true;
}

std::optional<OrderTimes> OrderTimes::of(const Program& program) {
  OrderTimes order;
  order.rank_of_stage_ = program.placement.ranks_of_stages();
  order.ranks_ = program.ranks.size();
  order.outputs_ = 2 * index(program.stage_count()) * index(program.unit_count());
  order.microbatches_ = program.microbatches;
  order.slices_ = program.slices;
  order.counts_.assign(index(program.stage_count()) * kKinds, 0);
  std::vector<std::vector<Action>> lists;
  lists.reserve(program.ranks.size());
  for (const std::vector<Action>& list : program.ranks) lists.push_back(compute_actions_of(list));
  std::vector<std::size_t> next(lists.size(), 0);
  std::vector<bool> is_made(order.outputs_, false);
  // A rank continues while its inputs are made. The loop ends after a round in which no rank could continue.
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
      while (next[rank] < lists[rank].size()) {
        const std::size_t end = group_end(lists[rank], next[rank]);
        const std::span<const Action> group(lists[rank].begin() + static_cast<std::ptrdiff_t>(next[rank]),
                                            end - next[rank]);
        if (!order.take(program, group, static_cast<std::int32_t>(rank), is_made)) break;
        next[rank] = end;
        moved = true;
      }
    }
  }
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (next[rank] < lists[rank].size()) return std::nullopt;
  }
  return order;
}

Ns OrderTimes::makespan_ns(const CostTable& costs, const UniformCluster& links) const {
  std::vector<Ns> durations;
  durations.reserve(costs.stages.size() * kKinds);
  for (const StageCost& cost : costs.stages) {
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      const auto of = static_cast<ActionKind>(kind);
      const std::int32_t parts = of == ActionKind::step ? 1 : slices_;
      durations.push_back(is_compute(of) ? duration_ns(cost, of) / parts : 0);
    }
  }
  std::vector<Ns> holds;
  holds.reserve(costs.edges.size());
  // Transfers take the same time in both directions, because chain_costs() gives them equal bytes.
  for (const EdgeCost& edge : costs.edges)
    holds.push_back(serialization_ns(edge.activation / slices_, links.bytes_per_second));
  std::vector<Ns> clocks(ranks_, 0);
  std::vector<Ns> free_at(channels_.size(), 0);
  std::vector<Ns> arrived(outputs_, 0);
  for (std::size_t first = 0; first < leaves_.size();) {
    Ns& clock = clocks[index(leaves_[first].rank)];
    Ns duration = 0;
    std::size_t end = first;
    bool goes_on = true;
    for (; goes_on; ++end) {
      const Leaf& leaf = leaves_[end];
      goes_on = leaf.overlaps_next;
      if (leaf.input != kNothing) clock = std::max(clock, arrived[index(leaf.input)]);
      duration += durations[index(leaf.cost)];
    }
    clock += duration;
    for (; first < end; ++first) {
      const Leaf& leaf = leaves_[first];
      if (leaf.output == kNothing) continue;
      Ns& arrival = arrived[index(leaf.output)];
      arrival = clock;
      if (leaf.channel == kNothing) continue;
      Ns& queue = free_at[index(leaf.channel)];
      queue = std::max(clock, queue) + holds[index(leaf.edge)];
      arrival = queue + links.latency_ns;
    }
  }
  return std::ranges::max(clocks);
}

double OrderTimes::busiest_ns_per_microbatch(const CostTable& costs) const {
  std::vector<double> busy(ranks_, 0);
  for (std::size_t cost = 0; cost < counts_.size(); ++cost) {
    const std::size_t stage = cost / kKinds;
    const auto kind = static_cast<ActionKind>(cost % kKinds);
    if (counts_[cost] == 0 || kind == ActionKind::step) continue;
    const auto all = static_cast<double>(counts_[cost]) / slices_;
    busy[index(rank_of_stage_[stage])] += all * static_cast<double>(duration_ns(costs.stages[stage], kind));
  }
  return std::ranges::max(busy) / microbatches_;
}

}  // namespace penstock
