// Checks that each stage runs all actions of each unit (a microbatch or slice), in a legal order. The checks
// use a table with a row for each stage and a column for each unit. The table is made only if the lists have
// enough forwards, because a program can state far more units than it lists.
//
//             unit 0             unit 1             positions in the list of the rank that runs the unit on
//   stage 0   F 0  I 3  W 4      F 1  I 5  W 6      the stage; either B, or I and W
//   stage 1   F 1  B 2           F 3  B 4
//
// validate_transfers.cpp checks the messages between them. Tested by validate_test.cpp.

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/check/validate_parts.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

using Positions = UnitTable::Positions;
Action compute_action(ActionKind kind, std::int32_t stage, std::int32_t unit) {
  return {.kind = kind, .stage = stage, .microbatch = unit};
}

/// Returns the table entry for an action of this kind, or null for kinds that the table does not store.
std::int32_t* place_of(Positions& positions, ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return &positions.forward;
    case ActionKind::backward:
      return &positions.backward;
    case ActionKind::backward_input:
      return &positions.backward_input;
    case ActionKind::backward_weight:
      return &positions.backward_weight;
    case ActionKind::recompute:
      return &positions.recompute;
    case ActionKind::send_forward:
    case ActionKind::recv_forward:
    case ActionKind::send_backward:
    case ActionKind::recv_backward:
    case ActionKind::unshard:
    case ActionKind::reshard:
    case ActionKind::reduce_grad:
    case ActionKind::step:
      return nullptr;
  }
  return nullptr;
}

/// Returns the lowest unit without a forward on `stage`, or unit_count() if all units have one.
std::int32_t missing_forward(const Program& program, std::int32_t stage) {
  std::vector<std::int32_t> units;
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::forward && action.stage == stage) units.push_back(action.microbatch);
    }
  }
  std::ranges::sort(units);
  std::int32_t missing = 0;
  for (const std::int32_t unit : units) {
    // The list is sorted, so a unit that appears twice is counted once.
    if (unit == missing) ++missing;
  }
  return missing;
}

tl::unexpected<std::string> report_missing(const Program& program, ActionKind kind, std::int32_t stage,
                                           std::int32_t unit, std::string_view rule) {
  return missing_at(program, program.placement.rank_of(stage, unit),
                    fmt::format("{} is missing, {}", to_text(compute_action(kind, stage, unit)), rule));
}

constexpr std::string_view kForwardRule = "every stage must run each microbatch's F once";
constexpr std::string_view kBackwardRule = "every F must have a B, or an I and a W";

/// Checks the number of forwards before the table is made. A program may state far more microbatches than its
/// lists have, and the table must not be larger than the lists.
Checked check_forward_counts(const Program& program) {
  std::vector<std::int64_t> forwards(program.placement.stages.size());
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::forward) ++forwards[static_cast<std::size_t>(action.stage)];
    }
  }
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    if (forwards[static_cast<std::size_t>(stage)] >= program.unit_count()) continue;
    return report_missing(program, ActionKind::forward, stage, missing_forward(program, stage), kForwardRule);
  }
  return {};
}

/// Enters the rank's F, B, I, W and R in the table. Each of them may appear once.
Checked fill(UnitTable& table, const Program& program, std::int32_t rank) {
  const std::vector<Action>& actions = program.ranks[static_cast<std::size_t>(rank)];
  std::size_t group = 0;
  for (std::size_t position = 0; position < actions.size(); ++position) {
    const Action& action = actions[position];
    if (opens_group(actions, position)) group = position;
    if (!has_weight_version(action.kind)) continue;
    std::int32_t& place = *place_of(table.at(action.stage, action.microbatch), action.kind);
    if (place != UnitTable::kAbsent) {
      return broken_at(
          program, rank, position, action,
          fmt::format("comes a second time, must come once (before at position {}); delete one", place));
    }
    // All actions of a group start together, so they share one position.
    place = static_cast<std::int32_t>(group);
  }
  return {};
}

/// Checks that a unit has an F, and either a B or both an I and a W. R is optional.
Checked check_complete(const Program& program, std::int32_t stage, std::int32_t unit, const Positions& at) {
  if (at.forward == UnitTable::kAbsent)
    return report_missing(program, ActionKind::forward, stage, unit, kForwardRule);
  const bool input = at.backward_input != UnitTable::kAbsent;
  const bool weight = at.backward_weight != UnitTable::kAbsent;
  if (at.backward == UnitTable::kAbsent) {
    if (input && weight) return {};
    // If the list has one half of the backward, the other half is missing. Otherwise the whole backward is
    // missing.
    ActionKind missing = ActionKind::backward;
    if (input) missing = ActionKind::backward_weight;
    if (weight) missing = ActionKind::backward_input;
    return report_missing(program, missing, stage, unit, kBackwardRule);
  }
  if (!input && !weight) return {};
  const auto extra = input ? ActionKind::backward_input : ActionKind::backward_weight;
  return broken_at(program, program.placement.rank_of(stage, unit),
                   static_cast<std::size_t>(input ? at.backward_input : at.backward_weight),
                   compute_action(extra, stage, unit),
                   fmt::format("repeats the work of {} (position {}); delete one of the two",
                               to_text(compute_action(ActionKind::backward, stage, unit)), at.backward));
}

/// Returns a fault unless `late` comes after `early` on the same rank. Actions of one overlapped group start
/// together, so no action of a group comes after another.
Checked check_after(const Program& program, const Placed& early, const Placed& late) {
  if (late.position > early.position) return {};
  const std::int32_t rank = program.placement.rank_of(late.action.stage, late.action.microbatch);
  const std::string rule = late.position == early.position
                               ? fmt::format("overlaps {}, must come after it", to_text(early.action))
                               : fmt::format("comes before {}, must come after it (position {})",
                                             to_text(early.action), early.position);
  return broken_at(program, rank, static_cast<std::size_t>(late.position), late.action, rule);
}

/// Checks the order F, then B or I, then W. R must come between F and B or I.
Checked check_stage_order(const Program& program, const UnitTable& table, std::int32_t stage,
                          std::int32_t unit) {
  const Positions& at = table.at(stage, unit);
  const auto placed = [&](ActionKind kind, std::int32_t position) {
    return Placed{.action = compute_action(kind, stage, unit), .position = position};
  };
  const bool split = at.backward == UnitTable::kAbsent;
  const Placed forward = table.worker(stage, unit, Flow::activation);
  const Placed gradient = table.worker(stage, unit, Flow::gradient);
  if (Checked order = check_after(program, forward, gradient); !order) return order;
  // I and W of one group are the two halves of a B, so they can start together.
  if (split && at.backward_weight < at.backward_input) {
    return check_after(program, gradient, placed(ActionKind::backward_weight, at.backward_weight));
  }
  if (at.recompute == UnitTable::kAbsent) return {};
  const Placed recompute = placed(ActionKind::recompute, at.recompute);
  if (Checked order = check_after(program, forward, recompute); !order) return order;
  return check_after(program, recompute, gradient);
}

/// Checks an edge inside a rank. It has no message, so the producer must come before the consumer in the
/// list.
Checked check_local_edge(const Program& program, const UnitTable& table, const StageEdge& edge,
                         std::int32_t unit) {
  if (program.placement.rank_of(edge.from, unit) != program.placement.rank_of(edge.to, unit)) return {};
  const auto worker = [&](std::int32_t stage, Flow flow) { return table.worker(stage, unit, flow); };
  Checked order =
      check_after(program, worker(edge.from, Flow::activation), worker(edge.to, Flow::activation));
  if (!order) return order;
  return check_after(program, worker(edge.to, Flow::gradient), worker(edge.from, Flow::gradient));
}

}  // namespace

Placed UnitTable::worker(std::int32_t stage, std::int32_t unit, Flow flow) const {
  const Positions& positions = at(stage, unit);
  if (flow == Flow::activation) {
    return {.action = compute_action(ActionKind::forward, stage, unit), .position = positions.forward};
  }
  const auto kind =
      positions.backward == UnitTable::kAbsent ? ActionKind::backward_input : ActionKind::backward;
  return {.action = compute_action(kind, stage, unit), .position = positions.gradient()};
}

tl::expected<UnitTable, std::string> tabulate_units(const Program& program) {
  if (Checked counts = check_forward_counts(program); !counts) return tl::unexpected(counts.error());
  UnitTable table;
  table.units = program.unit_count();
  table.cells.resize(program.placement.stages.size() * static_cast<std::size_t>(table.units));
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    if (Checked filled = fill(table, program, rank); !filled) return tl::unexpected(filled.error());
  }
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    for (std::int32_t unit = 0; unit < table.units; ++unit) {
      Checked complete = check_complete(program, stage, unit, table.at(stage, unit));
      if (!complete) return tl::unexpected(complete.error());
    }
  }
  return table;
}

Checked check_versions(const Program& program) {
  if (program.mixed_versions) return {};
  const auto units = static_cast<std::size_t>(program.unit_count());
  const auto cell = [&](const Action& action) {
    return static_cast<std::size_t>(action.stage) * units + static_cast<std::size_t>(action.microbatch);
  };
  // All F are collected first, so that this check does not depend on the order of the actions.
  std::vector<std::int32_t> of_forward(program.placement.stages.size() * units, 0);
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::forward) of_forward[cell(action)] = action.weight_version;
    }
  }
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    const std::vector<Action>& actions = program.ranks[static_cast<std::size_t>(rank)];
    for (std::size_t position = 0; position < actions.size(); ++position) {
      const Action& action = actions[position];
      if (!has_weight_version(action.kind) || action.weight_version == of_forward[cell(action)]) continue;
      return broken_at(
          program, rank, position, action,
          fmt::format("runs with weight version {}, must run with version {} of its F; a program "
                      "that may mix them needs the line `versions mixed`",
                      action.weight_version, of_forward[cell(action)]));
    }
  }
  return {};
}

Checked check_order(const Program& program, const UnitTable& table) {
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    for (std::int32_t unit = 0; unit < table.units; ++unit) {
      Checked order = check_stage_order(program, table, stage, unit);
      if (!order) return order;
    }
  }
  for (const StageEdge& edge : stage_edges(program)) {
    for (std::int32_t unit = 0; unit < table.units; ++unit) {
      if (Checked order = check_local_edge(program, table, edge, unit); !order) return order;
    }
  }
  return {};
}

}  // namespace penstock
