// Finds the moments at which each rank stores most. Before the first backward pass, this is the moment
// with most activations. After each stage has run a backward pass, the rank also stores gradients. So the
// outline contains two moments with most activations: one among all moments, and one among those with all
// gradients. The same moments are found for the first and the last stage alone, because these stages may
// need most memory:
//
//   1F1B, rank 0 of 3:   F0  F1  F2  B0   F3  B1 ...       live 1 2 3 3 | 3 3 ..   gradients from B0 on
//
// An offloaded activation counts only in its F and in its backward pass, because copies to and from the host
// may take no time.
//
// If layers are recomputed, microbatches between I and W need most memory. The outline therefore also
// contains the moment with most such microbatches.

#include "scenarios/prepare/schedule_outline.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

/// Returns the number of live microbatches, summed over the stages. All stages have the same weight, because
/// an outline contains no bytes.
std::int64_t live_count(const HeldMoment& moment) {
  return std::accumulate(moment.live.begin(), moment.live.end(), std::int64_t{0});
}

bool has_all_gradients(const HeldMoment& moment) {
  return std::ranges::find(moment.gradients, false) == moment.gradients.end();
}

/// Returns the number of live microbatches that wait for the action W (gradient of the weights), summed
/// over the stages.
std::int64_t waiting_count(const HeldMoment& moment) {
  return std::accumulate(moment.waiting.begin(), moment.waiting.end(), std::int64_t{0});
}

/// A search for the moment with the largest count of microbatches, among the moments that `admits` accepts.
class Fullest {
 public:
  using Count = std::int64_t (*)(const HeldMoment&);

  explicit Fullest(std::function<bool(const HeldMoment&)> admits, Count count = live_count)
      : admits_(std::move(admits)), count_(count) {}

  void see(const HeldMoment& moment) {
    if (!admits_(moment)) return;
    const std::int64_t count = count_(moment);
    if (count <= most_) return;
    most_ = count;
    moment_ = moment;
  }
  bool is_known() const { return most_ >= 0; }
  const HeldMoment& moment() const { return moment_; }

 private:
  std::function<bool(const HeldMoment&)> admits_;
  Count count_;
  std::int64_t most_ = -1;
  HeldMoment moment_;
};

/// Returns the moments at which a rank stores most, if it holds the stages `stages` and runs the actions of
/// `list` in order. The two actions of an overlapped pair count as consecutive actions.
std::vector<HeldMoment> fullest_moments(const std::vector<std::int32_t>& stages,
                                        const std::vector<Action>& list) {
  const auto last = static_cast<std::int32_t>(stages.size()) - 1;
  std::vector<Fullest> kept;
  kept.emplace_back([](const HeldMoment&) { return true; });
  kept.emplace_back(has_all_gradients);
  kept.emplace_back([](const HeldMoment& m) { return has_all_gradients(m) && m.running == 0; });
  kept.emplace_back([=](const HeldMoment& m) { return has_all_gradients(m) && m.running == last; });
  kept.emplace_back(has_all_gradients, waiting_count);
  HeldMoment now{.live = std::vector<std::int32_t>(stages.size(), 0),
                 .waiting = std::vector<std::int32_t>(stages.size(), 0),
                 .gradients = std::vector<bool>(stages.size(), false)};
  // Stages and units of the activations that are on the host.
  std::set<std::pair<std::int32_t, std::int32_t>> offloaded;
  for (const Action& action : list) {
    const std::pair unit(action.stage, action.microbatch);
    if (action.kind == ActionKind::offload) {
      // The copy to the host may end at once, and the activation returns at the latest before the backward
      // pass. It counts as on the host for all of this time.
      offloaded.insert(unit);
      --now.live[index(static_cast<std::int32_t>(std::ranges::find(stages, action.stage) - stages.begin()))];
    }
    if (!is_compute(action.kind) || action.kind == ActionKind::step) continue;
    now.running = static_cast<std::int32_t>(std::ranges::find(stages, action.stage) - stages.begin());
    now.kind = action.kind;
    const std::size_t stage = index(now.running);
    if (action.kind == ActionKind::forward || offloaded.erase(unit) > 0) ++now.live[stage];
    if (action.kind == ActionKind::backward_input) ++now.waiting[stage];
    // A rank stores data of a microbatch until the end of B, or until the end of W if backward passes are
    // split.
    const bool ends_microbatch = makes_weight_gradient(action.kind);
    if (ends_microbatch) now.gradients[stage] = true;
    for (Fullest& fullest : kept) fullest.see(now);
    if (ends_microbatch) --now.live[stage];
    if (action.kind == ActionKind::backward_weight) --now.waiting[stage];
  }
  std::vector<HeldMoment> moments;
  for (const Fullest& fullest : kept) {
    if (fullest.is_known()) moments.push_back(fullest.moment());
  }
  return moments;
}

/// Returns, for each replica of the stage, the number of microbatches or slices that it runs.
std::vector<std::int32_t> units_of_replicas(const Program& program, std::int32_t stage) {
  std::vector<std::int32_t> units(program.placement.stages[index(stage)].ranks.size(), 0);
  if (units.size() == 1) return {program.unit_count()};
  for (std::int32_t unit = 0; unit < program.unit_count(); ++unit)
    ++units[index(program.placement.replica_of(stage, unit))];
  return units;
}

}  // namespace

// With 2 K microbatches, each rank has finished its warm-up and has run its first backward passes. A larger
// number of microbatches does not need more memory.
std::int32_t outlined_microbatches(std::int32_t stages, std::int32_t microbatches, std::int32_t further) {
  return std::min(microbatches, 2 * (stages + further));
}

ScheduleOutline outline_of(const Program& program) {
  ScheduleOutline outline{.rank_of_stage = program.placement.ranks_of_stages(),
                          .extra = extra_stages_of(program),
                          .edges = program.edges,
                          .units = program.unit_count()};
  outline.ranks.resize(program.ranks.size());
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    const std::vector<std::int32_t> units = units_of_replicas(program, stage);
    for (std::size_t replica = 0; replica < units.size(); ++replica) {
      RankOutline& rank = outline.ranks[index(program.placement.stages[index(stage)].ranks[replica])];
      rank.stages.push_back(stage);
      rank.units.push_back(units[replica]);
    }
  }
  for (const std::vector<Action>& list : program.ranks) {
    outline.splits_backward |=
        std::ranges::find(list, ActionKind::backward_weight, &Action::kind) != list.end();
    outline.overlaps_pairs |= std::ranges::any_of(list, &Action::overlaps_next);
    outline.recomputes |= std::ranges::find(list, ActionKind::recompute, &Action::kind) != list.end();
  }
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    outline.ranks[rank].moments = fullest_moments(outline.ranks[rank].stages, program.ranks[rank]);
  }
  return outline;
}

ScheduleOutline outline_of_whole(ScheduleOutline outline, std::int64_t microbatches) {
  if (microbatches <= outline.units) return outline;
  for (RankOutline& rank : outline.ranks) {
    for (HeldMoment& moment : rank.moments) {
      for (std::size_t stage = 0; stage < rank.units.size(); ++stage) {
        const std::int32_t units = rank.units[stage];
        if (moment.live[stage] != units) continue;
        moment.live[stage] = static_cast<std::int32_t>(microbatches * units / outline.units);
      }
    }
  }
  return outline;
}

namespace {

/// Returns the bytes that the rank stores throughout the run: weights and optimizer state.
Bytes constant_bytes(const CostTable& costs, const RankOutline& rank) {
  Bytes constant = 0;
  for (const std::int32_t stage : rank.stages)
    constant += costs.stages[index(stage)].weights + costs.stages[index(stage)].optimizer_state;
  return constant;
}

/// Returns the bytes that the rank stores at a moment, in addition to constant_bytes(). Messages are not
/// included.
Bytes bytes_at(const CostTable& costs, const RankOutline& rank, const HeldMoment& moment) {
  const auto cost = [&](std::size_t stage) -> const StageCost& {
    return costs.stages[index(rank.stages[stage])];
  };
  Bytes held = transient_bytes(cost(index(moment.running)), moment.kind);
  for (std::size_t stage = 0; stage < rank.stages.size(); ++stage) {
    held += moment.live[stage] * cost(stage).kept;
    // A microbatch between I and W holds the recomputed bytes in place of those that I has released.
    held += moment.waiting[stage] * (cost(stage).recomputed - cost(stage).released_by_input);
    if (moment.gradients[stage]) held += cost(stage).gradients;
  }
  return held;
}

/// Returns the bytes of the message that the action has received from another rank. Gradients count only in
/// programs without the action R (recomputation). With R, it may be R that receives the gradient, and not
/// the B or I after it.
Bytes received_bytes(const CostTable& costs, const ScheduleOutline& outline, std::int32_t stage,
                     ActionKind kind) {
  const std::vector<std::int32_t>& ranks = outline.rank_of_stage;
  const auto crosses = [&](std::size_t from) { return ranks[from] != ranks[from + 1]; };
  const std::size_t own = index(stage);
  if (kind == ActionKind::forward) return own > 0 && crosses(own - 1) ? costs.edges[own - 1].activation : 0;
  const bool takes_gradient = kind == ActionKind::backward || kind == ActionKind::backward_input;
  const bool is_received = takes_gradient && !outline.recomputes && own + 1 < ranks.size() && crosses(own);
  return is_received ? costs.edges[own].gradient : 0;
}

}  // namespace

Bytes least_peak_bytes(const CostTable& costs, const RankOutline& rank) {
  Bytes most = 0;
  for (const HeldMoment& moment : rank.moments) most = std::max(most, bytes_at(costs, rank, moment));
  return constant_bytes(costs, rank) + most;
}

Bytes least_peak_bytes(const CostTable& costs, const ScheduleOutline& outline, const RankOutline& rank) {
  Bytes most = 0;
  for (const HeldMoment& moment : rank.moments) {
    const std::int32_t stage = rank.stages[index(moment.running)];
    most = std::max(most, bytes_at(costs, rank, moment) + received_bytes(costs, outline, stage, moment.kind));
  }
  return constant_bytes(costs, rank) + most;
}

// Puts the actions of all ranks into one order, in which each action follows its inputs. One pass over this
// order then computes the times for a table of costs:
//
//   rank 0   0F0  0F1  0B0  0B1          0F0 0F1 1F0 1B0 0B0 1F1 1B1 0B1
//   rank 1   1F0  1B0  1F1  1B1    ->    each starts when its rank is free and its input has arrived
//
// The engines in sim/engines support all channel models. This file supports only what balanced_split.cpp
// needs, which computes times for many lists of layers.

namespace {

std::vector<Action> compute_actions_of(const std::vector<Action>& list) {
  std::vector<Action> kept;
  std::ranges::copy_if(list, std::back_inserter(kept),
                       [](const Action& action) { return is_compute(action.kind); });
  return kept;
}

}  // namespace

void OrderTimes::set_channel(Leaf& leaf, std::int32_t consumer) {
  const std::pair ends(leaf.rank, consumer);
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
  Leaf leaf{.rank = rank,
            .cost = static_cast<std::int32_t>(index(action.stage) * kActionKindCount +
                                              static_cast<std::size_t>(action.kind)),
            .overlaps_next = action.overlaps_next};
  const bool is_last = action.stage + 1 == stages;
  const bool is_late = action.kind == ActionKind::recompute && program.recompute == RecomputeTiming::late;
  if (action.kind == ActionKind::forward) {
    if (action.stage > 0) leaf.input = activation(action.stage - 1);
    if (is_last) return leaf;
    leaf.output = activation(action.stage);
    leaf.edge = action.stage;
    set_channel(leaf, program.placement.rank_of(action.stage + 1, action.microbatch));
  } else if (makes_input_gradient(action.kind) || is_late) {
    if (!is_last) leaf.input = gradient(action.stage + 1);
    if (action.stage == 0 || is_late) return leaf;
    leaf.output = gradient(action.stage);
    leaf.edge = action.stage - 1;
    set_channel(leaf, program.placement.rank_of(action.stage - 1, action.microbatch));
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
    ++counts_[{leaf.rank, leaf.cost}];
    leaves_.push_back(leaf);
  }
  return true;
}

std::optional<OrderTimes> OrderTimes::of(const Program& program) {
  OrderTimes order;
  order.ranks_ = program.ranks.size();
  order.outputs_ = 2 * index(program.stage_count()) * index(program.unit_count());
  order.microbatches_ = program.microbatches;
  order.slices_ = program.slices;
  std::vector<std::vector<Action>> lists;
  lists.reserve(program.ranks.size());
  for (const std::vector<Action>& list : program.ranks) lists.push_back(compute_actions_of(list));
  std::vector<std::size_t> next(lists.size(), 0);
  std::vector<bool> is_made(order.outputs_, false);
  // A rank continues as long as its inputs are available. The loop ends after a round in which no rank could
  // continue.
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
  durations.reserve(costs.stages.size() * kActionKindCount);
  for (const StageCost& cost : costs.stages) {
    for (std::size_t kind = 0; kind < kActionKindCount; ++kind) {
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
  for (const auto& [rank_and_cost, count] : counts_) {
    const auto [rank, cost] = rank_and_cost;
    const std::size_t stage = index(cost) / kActionKindCount;
    const auto kind = static_cast<ActionKind>(index(cost) % kActionKindCount);
    if (kind == ActionKind::step) continue;
    const auto all = static_cast<double>(count) / slices_;
    busy[index(rank)] += all * static_cast<double>(duration_ns(costs.stages[stage], kind));
  }
  return std::ranges::max(busy) / microbatches_;
}

}  // namespace penstock
