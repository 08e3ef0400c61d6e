// Removes a stage or a unit (a microbatch or slice) from a program. The actions of this part are removed,
// and later parts get lower numbers. The example is a lowered chain 0>1>2 without stage 1:
//
//   rank 0   0F0 0SEND_F0                    0F0 0SEND_F0
//   rank 1   1RECV_F0 1F0 1SEND_F0      ->
//   rank 2   2RECV_F0 2F0                    1RECV_F0 1F0
//
// counterexample.cpp decides which parts to remove. Tests: tests/schedules/counterexample_test.cpp.

#include "schedules/passes/counterexample.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

constexpr std::int32_t kNoRank = -1;

/// A function that returns the new form of an action. It returns nothing if the action is to be removed.
/// The other actions of its group remain.
using Rewrite = std::function<std::optional<Action>(const Action&)>;

std::vector<Action> rewritten(const std::vector<Action>& actions, const Rewrite& rewrite) {
  std::vector<Action> kept;
  kept.reserve(actions.size());
  bool group_is_open = false;  // the last action of `kept` overlaps the next one
  for (const Action& action : actions) {
    const auto left = rewrite(action);
    if (left) {
      kept.push_back(*left);
      group_is_open = action.overlaps_next;
    } else if (group_is_open && !action.overlaps_next) {
      kept.back().overlaps_next = false;
      group_is_open = false;
    }
  }
  return kept;
}

/// Returns true if the program has the stage. The program may be invalid, so a look-up must check this first.
bool has_stage(const Program& program, std::int32_t stage) {
  return stage >= 0 && stage < program.stage_count();
}

/// Returns true if every edge names existing stages. The program may be invalid.
bool edges_in_range(const Program& program) {
  return std::ranges::all_of(program.edges, [&](const StageEdge& edge) {
    return has_stage(program, edge.from) && has_stage(program, edge.to);
  });
}

/// Returns the rank that runs `stage` for `microbatch`, or kNoRank if the placement does not contain the
/// stage.
std::int32_t placed_rank(const Program& program, std::int32_t stage, std::int32_t microbatch) {
  if (!has_stage(program, stage) || microbatch < 0) return kNoRank;
  const StagePlacement& placement = program.placement.stages[index(stage)];
  if (placement.route.empty()) return kNoRank;
  const std::int32_t replica = placement.route[index(microbatch) % placement.route.size()];
  if (replica < 0 || index(replica) >= placement.ranks.size()) return kNoRank;
  return placement.ranks[index(replica)];
}

// --- stages ----------------------------------------------------------------------------------------------

/// The place of a removed stage. If the stage has exactly one predecessor and one successor, a new edge
/// connects (ties) these two.
struct Gap {
  std::int32_t stage = 0;
  bool tied = false;
  std::int32_t before = 0;
  std::int32_t behind = 0;

  std::int32_t renumbered(std::int32_t other) const { return other > stage ? other - 1 : other; }
};

/// Returns the gap that remains after a stage is removed. The stages around it are tied only if their
/// messages correspond one to one. They are not tied if the stage has several predecessors or successors.
/// They are not tied either if its two edges and the new edge carry different flows.
Gap gap_at(const Program& program, std::int32_t stage) {
  Gap gap{.stage = stage};
  if (!edges_in_range(program)) return gap;
  std::vector<StageEdge> before;
  std::vector<StageEdge> behind;
  bool joined = false;
  for (const StageEdge& edge : stage_edges(program)) {
    if (edge.to == stage) before.push_back(edge);
    if (edge.from == stage) behind.push_back(edge);
  }
  if (before.size() != 1 || behind.size() != 1) return gap;
  gap.before = before.front().from;
  gap.behind = behind.front().to;
  const StageEdge tie{.from = gap.before, .to = gap.behind};
  // If the two stages already have an edge, a second edge would be invalid.
  for (const StageEdge& edge : program.edges) joined |= edge.joins_same(tie);
  const auto like_tie = [&](const StageEdge& edge, Flow flow) {
    return carries(program.placement, edge, flow) == carries(program.placement, tie, flow);
  };
  gap.tied = !joined;
  for (const Flow flow : {Flow::activation, Flow::gradient})
    gap.tied &= like_tie(before.front(), flow) && like_tie(behind.front(), flow);
  return gap;
}

/// Returns the sorted edges with new stage numbers. The edges of the removed stage are left out. If two
/// stages are tied, their new edge is added.
std::vector<StageEdge> edges_around(const Program& program, const Gap& gap) {
  std::vector<StageEdge> edges;
  for (const StageEdge& edge : program.edges) {
    if (edge.from == gap.stage || edge.to == gap.stage) continue;
    edges.push_back({.from = gap.renumbered(edge.from), .to = gap.renumbered(edge.to), .flows = edge.flows});
  }
  // A program without stated edges is a chain. Without the stage it is still a chain.
  if (gap.tied && !program.edges.empty()) {
    edges.push_back({.from = gap.renumbered(gap.before), .to = gap.renumbered(gap.behind)});
  }
  std::ranges::sort(edges);
  return edges;
}

/// Returns the costs for `rest`, the program without the removed stage. The edge between tied stages carries
/// the larger message of the two edges that it replaces. All microbatches get the costs of the mean
/// microbatch.
CostTable costs_around(const Excerpt& whole, const Gap& gap, const Program& rest) {
  const std::vector<StageEdge> edges = stage_edges(whole.program);
  EdgeCost tied;
  std::map<StageEdge, EdgeCost> kept;
  for (std::size_t number = 0; number < edges.size(); ++number) {
    const StageEdge& edge = edges[number];
    const EdgeCost& cost = whole.costs.edges.at(number);
    if (edge.from == gap.stage || edge.to == gap.stage) {
      tied.activation = std::max(tied.activation, cost.activation);
      tied.gradient = std::max(tied.gradient, cost.gradient);
    } else {
      kept[{.from = gap.renumbered(edge.from), .to = gap.renumbered(edge.to), .flows = edge.flows}] = cost;
    }
  }
  CostTable costs{.stages = whole.costs.stages, .edges = {}};
  costs.stages.erase(costs.stages.begin() + gap.stage);
  for (const StageEdge& edge : stage_edges(rest)) {
    const auto found = kept.find(edge);
    costs.edges.push_back(found == kept.end() ? tied : found->second);
  }
  return costs;
}

/// Returns the message between the two tied stages that replaces a message of the removed stage. Returns
/// nothing if the message has no replacement and is removed.
std::optional<Action> tied_message(const Program& program, const Gap& gap, Action message) {
  const auto rank_of = [&](std::int32_t stage) { return placed_rank(program, stage, message.microbatch); };
  const bool same_rank = rank_of(gap.before) == rank_of(gap.behind);
  const bool known = message.stage == gap.before || message.stage == gap.behind ||
                     message.peer == gap.before || message.peer == gap.behind;
  if (!gap.tied || same_rank || !known) return std::nullopt;
  if (message.peer == gap.stage) {
    message.peer = message.stage == gap.before ? gap.behind : gap.before;
    return message;
  }
  // The removed stage sends or receives this message. The stage on its other side may be on the same rank.
  // Then these two exchanged no message, so that stage takes over this one. Otherwise that stage has a SEND
  // or RECV of its own, which the code above changes, and this message is removed.
  const std::int32_t instead = message.peer == gap.behind ? gap.before : gap.behind;
  if (rank_of(instead) != rank_of(gap.stage)) return std::nullopt;
  message.stage = instead;
  return message;
}

/// Returns true if any stage has a replica on the rank.
bool is_held(const Program& program, std::int32_t rank) {
  return std::ranges::any_of(program.placement.stages, [&](const StagePlacement& stage) {
    return std::ranges::find(stage.ranks, rank) != stage.ranks.end();
  });
}

Program without_idle_ranks(Program program) {
  // Ranks are removed from the last to the first, so that the numbers of earlier ranks do not change.
  for (std::int32_t rank = program.rank_count(); rank-- > 0;) {
    if (!program.ranks[index(rank)].empty() || is_held(program, rank)) continue;
    program.ranks.erase(program.ranks.begin() + rank);
    for (StagePlacement& stage : program.placement.stages) {
      for (std::int32_t& holder : stage.ranks) {
        if (holder > rank) --holder;
      }
    }
  }
  return program;
}

// --- microbatches ----------------------------------------------------------------------------------------

/// The units (microbatches or slices) that are removed.
struct GoneUnits {
  std::vector<bool> gone;
  /// For each unit, the number of removed units before it. One more entry, at the end, counts all removed
  /// units.
  std::vector<std::int32_t> gone_before;

  explicit GoneUnits(std::vector<bool> units) : gone(std::move(units)), gone_before(gone.size() + 1, 0) {
    for (std::size_t unit = 0; unit < gone.size(); ++unit) {
      gone_before[unit + 1] = gone_before[unit] + (gone[unit] ? 1 : 0);
    }
  }
  bool has(std::int32_t unit) const { return unit >= 0 && index(unit) < gone.size() && gone[index(unit)]; }
  /// Returns the new number of `unit`. A number after the last unit decreases by the number of all removed
  /// units.
  std::int32_t renumbered(std::int32_t unit) const {
    if (unit < 0) return unit;
    return unit - gone_before[std::min(index(unit), gone.size())];
  }
};

/// The REDUCE_GRADs and STEPs of a rank that depend only on removed backward passes. These actions are
/// removed as well. The weight versions that these STEPs make then disappear.
class LostUpdates {
 public:
  LostUpdates(const std::vector<Action>& actions, std::int32_t stages, const GoneUnits& units)
      : lost_(actions.size(), false), windows_(index(std::max(stages, 0))) {
    for (std::size_t position = 0; position < actions.size(); ++position) {
      const Action& action = actions[position];
      if (action.stage < 0 || action.stage >= stages) continue;
      note(action, position, units);
    }
  }

  bool lost(std::size_t position) const { return lost_[position]; }
  /// Returns the new number of a weight version. It counts only the remaining STEPs.
  std::int32_t renumbered(std::int32_t stage, std::int32_t version) const {
    if (stage < 0 || index(stage) >= windows_.size()) return version;
    const auto& steps = windows_[index(stage)].steps_lost;
    const auto last = steps.begin() + std::clamp<std::ptrdiff_t>(version, 0, std::ssize(steps));
    // The version decreases by the number of removed STEPs before it.
    return version - static_cast<std::int32_t>(std::count(steps.begin(), last, true));
  }

 private:
  /// A summary of the actions of a stage since its previous STEP.
  struct Window {
    bool some = false;  // true if there is a backward
    bool left = false;  // true if there is a backward that remains
    std::vector<std::size_t> reductions;
    std::vector<bool> steps_lost;
  };

  void note(const Action& action, std::size_t position, const GoneUnits& units) {
    Window& window = windows_[index(action.stage)];
    if (makes_weight_gradient(action.kind)) {
      window.some = true;
      window.left |= !units.has(action.microbatch);
    } else if (action.kind == ActionKind::reduce_grad) {
      window.reductions.push_back(position);
    } else if (action.kind == ActionKind::step) {
      // A STEP without any backward before it does not depend on removed backwards, so it remains.
      const bool goes = window.some && !window.left;
      for (const std::size_t reduction : window.reductions) lost_[reduction] = goes;
      lost_[position] = goes;
      window.steps_lost.push_back(goes);
      window.some = window.left = false;
      window.reductions.clear();
    }
  }

  std::vector<bool> lost_;
  std::vector<Window> windows_;
};

/// Returns the route of a stage for the remaining units, cut to its shortest period. This is enough,
/// because a route is repeated for ever.
std::vector<std::int32_t> route_of_rest(const std::vector<std::int32_t>& route, const GoneUnits& units) {
  if (route.size() < 2) return route;
  std::vector<std::int32_t> rest;
  for (std::size_t unit = 0; unit < units.gone.size(); ++unit) {
    if (!units.gone[unit]) rest.push_back(route[unit % route.size()]);
  }
  const auto repeats_after = [&](std::size_t period) {
    return std::equal(rest.begin() + static_cast<std::ptrdiff_t>(period), rest.end(), rest.begin());
  };
  std::size_t period = 1;
  // A route is repeated forever, so its shortest period is enough.
  while (period < rest.size() && !repeats_after(period)) ++period;
  if (period < rest.size()) rest.resize(period);
  return rest;
}

/// Returns the program without the actions of these units. If each microbatch has its own update, the
/// updates of removed microbatches are also removed.
Program without_units(const Program& program, const GoneUnits& units) {
  Program rest = program;
  for (StagePlacement& stage : rest.placement.stages) stage.route = route_of_rest(stage.route, units);
  for (std::vector<Action>& actions : rest.ranks) {
    const LostUpdates updates(actions, program.stage_count(), units);
    const bool keeps_updates = program.update == UpdateRule::minibatch;
    std::size_t position = 0;
    actions = rewritten(actions, [&](Action action) -> std::optional<Action> {
      const std::size_t here = position++;
      if (!keeps_updates && updates.lost(here)) return std::nullopt;
      if (!has_microbatch(action.kind)) return action;
      if (units.has(action.microbatch)) return std::nullopt;
      action.microbatch = units.renumbered(action.microbatch);
      if (!keeps_updates) action.weight_version = updates.renumbered(action.stage, action.weight_version);
      return action;
    });
  }
  return rest;
}

/// Returns a mark for each unit, all false. Returns no marks if the program's numbers are invalid.
std::vector<bool> no_units(const Program& program) {
  // One mark is a bit, so these marks take 8 MiB; programs that are shrunk have fewer microbatches.
  constexpr std::int64_t kMostUnits = 1 << 26;
  const std::int64_t units = std::int64_t{program.microbatches} * program.slices;
  return std::vector<bool>(units > 0 && units <= kMostUnits ? static_cast<std::size_t>(units) : 0, false);
}

/// Removes the replica of a stage on `rank`. Requires that no remaining microbatch runs on this replica.
Program without_replica(Program program, std::int32_t stage, std::int32_t rank) {
  StagePlacement& placement = program.placement.stages[index(stage)];
  const std::int32_t replica = program.placement.replica_on(stage, rank);
  placement.ranks.erase(placement.ranks.begin() + replica);
  for (std::int32_t& entry : placement.route) {
    if (entry > replica) --entry;
  }
  std::erase_if(program.ranks[index(rank)], [&](const Action& action) { return action.stage == stage; });
  return program;
}

}  // namespace

Excerpt without_stage(const Excerpt& whole, std::int32_t stage) {
  const Program& program = whole.program;
  const Gap gap = gap_at(program, stage);
  Program rest = program;
  rest.edges = edges_around(program, gap);
  rest.placement.stages.erase(rest.placement.stages.begin() + stage);
  for (std::vector<Action>& actions : rest.ranks) {
    actions = rewritten(actions, [&](Action action) -> std::optional<Action> {
      const bool at_gap = action.stage == stage || (is_transfer(action.kind) && action.peer == stage);
      if (at_gap) {
        const auto tied = is_transfer(action.kind) ? tied_message(program, gap, action) : std::nullopt;
        if (!tied) return std::nullopt;
        action = *tied;
      }
      action.stage = gap.renumbered(action.stage);
      if (is_transfer(action.kind)) action.peer = gap.renumbered(action.peer);
      return action;
    });
  }
  CostTable costs = costs_around(whole, gap, rest);
  return {.program = without_idle_ranks(std::move(rest)), .costs = std::move(costs)};
}

Excerpt without_stages_of(const Excerpt& whole, std::int32_t rank) {
  Excerpt rest = whole;
  for (std::int32_t stage = whole.program.stage_count(); stage-- > 0;) {
    if (whole.program.placement.replica_on(stage, rank) >= 0) rest = without_stage(rest, stage);
  }
  return rest;
}

Excerpt without_replicas_of(const Excerpt& whole, std::int32_t rank) {
  const Program& program = whole.program;
  std::vector<bool> units = no_units(program);
  std::vector<std::int32_t> shared;
  std::vector<std::int32_t> alone;
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    if (program.placement.replica_on(stage, rank) < 0) continue;
    // For a shared stage, other replicas remain. A stage on this rank alone is removed.
    (program.placement.stages[index(stage)].ranks.size() > 1 ? shared : alone).push_back(stage);
  }
  for (const std::int32_t stage : shared) {
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      units[unit] = units[unit] || placed_rank(program, stage, static_cast<std::int32_t>(unit)) == rank;
    }
  }
  const GoneUnits gone(std::move(units));
  Excerpt rest{.program = without_units(program, gone), .costs = whole.costs};
  rest.program.microbatches -= gone.gone_before.back() / std::max(1, program.slices);
  for (const std::int32_t stage : shared) {
    rest.program = without_replica(std::move(rest.program), stage, rank);
  }
  // Stages are removed from the last to the first, so that the numbers of earlier stages do not change.
  for (std::size_t i = alone.size(); i-- > 0;) rest = without_stage(rest, alone[i]);
  rest.program = without_idle_ranks(std::move(rest.program));
  return rest;
}

Excerpt without_microbatches(const Excerpt& whole, std::int32_t first, std::int32_t count) {
  std::vector<bool> units = no_units(whole.program);
  const auto position_of = [&](std::int32_t microbatch) {
    return std::min<std::ptrdiff_t>(std::int64_t{microbatch} * whole.program.slices, std::ssize(units));
  };
  std::fill(units.begin() + position_of(first), units.begin() + position_of(first + count), true);
  Excerpt rest{.program = without_units(whole.program, GoneUnits(std::move(units))), .costs = whole.costs};
  rest.program.microbatches -= count;
  return rest;
}

Excerpt without_slice(const Excerpt& whole, std::int32_t slice) {
  std::vector<bool> units = no_units(whole.program);
  for (std::size_t unit = index(slice); unit < units.size(); unit += index(whole.program.slices)) {
    units[unit] = true;
  }
  Excerpt rest{.program = without_units(whole.program, GoneUnits(std::move(units))), .costs = whole.costs};
  --rest.program.slices;
  return rest;
}

Excerpt without_action(const Excerpt& whole, std::int32_t rank, std::size_t position) {
  Excerpt rest = whole;
  std::size_t here = 0;
  rest.program.ranks[index(rank)] = rewritten(whole.program.ranks[index(rank)], [&](const Action& action) {
    return here++ == position ? std::nullopt : std::optional(action);
  });
  return rest;
}

}  // namespace penstock
