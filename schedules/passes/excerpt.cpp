// Taking a stage or a unit away is a pass over all lists: what belongs to it is dropped, what stands behind
// it in number moves up. A chain 0>1>2 without stage 1, lowered:
//
//   rank 0   0F0 0SEND_F0                    0F0 0SEND_F0
//   rank 1   1RECV_F0 1F0 1SEND_F0      ->
//   rank 2   2RECV_F0 2F0                    1RECV_F0 1F0

#include "schedules/passes/excerpt.hpp"

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
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

constexpr std::int32_t kNoRank = -1;

/// Keeps what `rewrite` returns of each action. A group goes on without the leaves that it loses.
using Rewrite = std::function<std::optional<Action>(const Action&)>;

std::vector<Action> rewritten(const std::vector<Action>& actions, const Rewrite& rewrite) {
  std::vector<Action> kept;
  kept.reserve(actions.size());
  bool group_is_open = false;  // the leaf before is in `kept` and overlaps the next one
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

/// What is looked up in a program that need not be valid is asked for first.
bool has_stage(const Program& program, std::int32_t stage) {
  return stage >= 0 && stage < program.stage_count();
}

/// The program need not be valid: what is looked up by an edge's stages asks this first.
bool edges_in_range(const Program& program) {
  return std::ranges::all_of(program.edges, [&](const StageEdge& edge) {
    return has_stage(program, edge.from) && has_stage(program, edge.to);
  });
}

/// The rank that has `stage` for `microbatch`; kNoRank where the placement does not say.
std::int32_t placed_rank(const Program& program, std::int32_t stage, std::int32_t microbatch) {
  if (!has_stage(program, stage) || microbatch < 0) return kNoRank;
  const StagePlacement& placement = program.placement.stages[index(stage)];
  if (placement.route.empty()) return kNoRank;
  const std::int32_t replica = placement.route[index(microbatch) % placement.route.size()];
  if (replica < 0 || index(replica) >= placement.ranks.size()) return kNoRank;
  return placement.ranks[index(replica)];
}

// --- stages ----------------------------------------------------------------------------------------------

/// A stage that goes, and the two stages that are tied together in its place, if it lies between just two.
struct Gap {
  std::int32_t stage = 0;
  bool tied = false;
  std::int32_t before = 0;
  std::int32_t behind = 0;

  std::int32_t renumbered(std::int32_t other) const { return other > stage ? other - 1 : other; }
};

/// A branch or a join is not tied: which of its messages would stand for which?
Gap gap_at(const Program& program, std::int32_t stage) {
  Gap gap{.stage = stage};
  if (!edges_in_range(program)) return gap;
  const StageNeighbours neighbours = stage_neighbours(program);
  const auto& before = neighbours.predecessors[index(stage)];
  const auto& behind = neighbours.successors[index(stage)];
  if (before.size() != 1 || behind.size() != 1) return gap;
  gap.before = before.front();
  gap.behind = behind.front();
  // Where the two have an edge already, a second one of the same name would not be sound.
  gap.tied = std::ranges::find(program.edges, StageEdge{.from = gap.before, .to = gap.behind}) ==
             program.edges.end();
  return gap;
}

/// Without those of the gap's stage, with one between the two that are tied, numbered anew; sorted.
std::vector<StageEdge> edges_around(const Program& program, const Gap& gap) {
  std::vector<StageEdge> edges;
  for (const StageEdge& edge : program.edges) {
    if (edge.from == gap.stage || edge.to == gap.stage) continue;
    edges.push_back({.from = gap.renumbered(edge.from), .to = gap.renumbered(edge.to)});
  }
  // A program without a list of edges is a chain, and is one without the stage.
  if (gap.tied && !program.edges.empty()) {
    edges.push_back({.from = gap.renumbered(gap.before), .to = gap.renumbered(gap.behind)});
  }
  std::ranges::sort(edges);
  return edges;
}

/// The costs of `rest`, which is the program without the gap's stage. An edge that comes instead of the
/// stage's own carries as much as the larger of those. Every microbatch is the mean one.
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
      kept[{.from = gap.renumbered(edge.from), .to = gap.renumbered(edge.to)}] = cost;
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

/// A message from or to the stage of the gap, as the message between the tied stages that takes its place.
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
  // Sent or received by the stage that goes: only in place of a stage on the same rank, which had no message.
  // Elsewhere the neighbour has a SEND or RECV of its own, which is tied above, and this one goes.
  const std::int32_t instead = message.peer == gap.behind ? gap.before : gap.behind;
  if (rank_of(instead) != rank_of(gap.stage)) return std::nullopt;
  message.stage = instead;
  return message;
}

/// Whether some stage has a replica on the rank.
bool is_held(const Program& program, std::int32_t rank) {
  return std::ranges::any_of(program.placement.stages, [&](const StagePlacement& stage) {
    return std::ranges::find(stage.ranks, rank) != stage.ranks.end();
  });
}

Program without_idle_ranks(Program program) {
  // From the last on, so that the numbers of ranks still to come stay.
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

/// The units that go, by number.
struct GoneUnits {
  std::vector<bool> gone;
  std::vector<std::int32_t> gone_before;  ///< as many go before the unit; one entry more than units

  explicit GoneUnits(std::vector<bool> units) : gone(std::move(units)), gone_before(gone.size() + 1, 0) {
    for (std::size_t unit = 0; unit < gone.size(); ++unit) {
      gone_before[unit + 1] = gone_before[unit] + (gone[unit] ? 1 : 0);
    }
  }
  bool has(std::int32_t unit) const { return unit >= 0 && index(unit) < gone.size() && gone[index(unit)]; }
  /// What stands for `unit` afterwards; numbers beyond the last move up, too.
  std::int32_t renumbered(std::int32_t unit) const {
    if (unit < 0) return unit;
    return unit - gone_before[std::min(index(unit), gone.size())];
  }
};

/// A REDUCE_GRAD or STEP of a rank that only backwards lead to that go, and which versions that takes away.
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
  /// Of `version` counted in all STEPs, its number among those that stay.
  std::int32_t renumbered(std::int32_t stage, std::int32_t version) const {
    if (stage < 0 || index(stage) >= windows_.size()) return version;
    const auto& steps = windows_[index(stage)].steps_lost;
    const auto last = steps.begin() + std::clamp<std::ptrdiff_t>(version, 0, std::ssize(steps));
    // As many lower as STEPs before it have gone.
    return version - static_cast<std::int32_t>(std::count(steps.begin(), last, true));
  }

 private:
  /// What a stage's list holds since its last STEP.
  struct Window {
    bool some = false;  // a backward
    bool left = false;  // one that stays
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
      // A STEP without any backward before it was no consequence of those that go, and stays.
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

/// The route of the units that stay, as short as it can be said.
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
  // A route repeats for ever, so that the shortest period of the rest says as much as all of it.
  while (period < rest.size() && !repeats_after(period)) ++period;
  if (period < rest.size()) rest.resize(period);
  return rest;
}

/// Without what is done for these units, and, where each has an update of its own, without their updates.
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

/// A mark for each unit; none where the program's numbers make no sense.
std::vector<bool> no_units(const Program& program) {
  constexpr std::int64_t kMostUnits = 1 << 26;  // 8 MiB of marks; what is to be shrunk has fewer
  const std::int64_t units = std::int64_t{program.microbatches} * program.slices;
  return std::vector<bool>(units > 0 && units <= kMostUnits ? static_cast<std::size_t>(units) : 0, false);
}

/// Requires that no microbatch that stays is routed to `rank`.
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
    // Another replica can do the work of a shared stage; one that the rank holds alone goes as a whole.
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
  // From the last on, so that the numbers of stages still to come stay.
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
